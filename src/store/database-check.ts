/** What is checked about a database before a server starts on it. */
export interface DatabaseCheck {
  /** What the database is, without a password. */
  readonly description: string
  /** What would stop a server from starting on it. */
  readonly problems: readonly string[]
  readonly warnings: readonly string[]
}
