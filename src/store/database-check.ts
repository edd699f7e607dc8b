/** The checks of a database before a server starts on it. */
export interface DatabaseCheck {
  /** What the database is, without a password. */
  readonly description: string
  /** Problems that would keep a server from starting on it. */
  readonly problems: readonly string[]
  readonly warnings: readonly string[]
}
