/** What is found out about a database before a server starts on it. */
export interface DatabaseCheck {
  /** What the database is, without a password. */
  readonly says: string
  /** What would stop a server from starting on it. */
  readonly problems: readonly string[]
  readonly warnings: readonly string[]
}
