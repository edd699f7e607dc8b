/** Problems with databases and their files that an operator must fix. The messages are written for operators. */
export class DatabaseProblem extends Error {
  override readonly name = 'DatabaseProblem'
}

/** @param place how the message names the database, without a password */
export function notEmpty(place: string): DatabaseProblem {
  return new DatabaseProblem(
    `${place} holds accounts or jobs already, and a copy never mixes two databases. Name one that no server has been started on.`,
  )
}

export interface DatabaseCheck {
  /** The description contains no password. */
  readonly description: string
  /** A server does not start on a database with these problems. */
  readonly problems: readonly string[]
  readonly warnings: readonly string[]
}
