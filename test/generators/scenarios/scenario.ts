/** What each generated client does, and what it must see. */

export interface Server {
  readonly url: string
  readonly key: string
  /** A key that may make one read a minute. */
  readonly slowKey: string
}

export interface Seen {
  /** The answer of a single create. */
  readonly answer: unknown
  /** The ids of a batch. */
  readonly jobIds: readonly string[]
  /** The status of each after a wait. */
  readonly statuses: readonly string[]
  /** What was wrong, by status. */
  readonly errors: Readonly<Record<number, string>>
}
