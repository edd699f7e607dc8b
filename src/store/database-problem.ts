/** A problem of the database that its operator must fix. The message explains what is wrong and what to do. */
export class DatabaseProblem extends Error {
  override readonly name = 'DatabaseProblem'
}

/**
 * Explains that the target of a transfer is not empty.
 * @param place the address of the database, without a password
 */
export function notEmpty(place: string): DatabaseProblem {
  return new DatabaseProblem(
    `${place} holds accounts or jobs already, and a copy never mixes two databases. Name one that no server has been started on.`,
  )
}

export interface DatabaseCheck {
  /** Names the database and its version, without a password. */
  readonly description: string
  /** Problems that prevent a server from starting. */
  readonly problems: readonly string[]
  readonly warnings: readonly string[]
}
