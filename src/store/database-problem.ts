/** Something about the database that its operator must fix; the message explains what and how. */
export class DatabaseProblem extends Error {
  override readonly name = 'DatabaseProblem'
}

/** Of a transfer whose target is not empty. @param place without a password */
export function notEmpty(place: string): DatabaseProblem {
  return new DatabaseProblem(
    `${place} holds accounts or jobs already, and a copy never mixes two databases. Name one that no server has been started on.`,
  )
}

/** The checks of a database before a server starts on it. */
export interface DatabaseCheck {
  /** What the database is, without a password. */
  readonly description: string
  /** Problems that would keep a server from starting on it. */
  readonly problems: readonly string[]
  readonly warnings: readonly string[]
}
