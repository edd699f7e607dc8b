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
  /** The status of each, one after the other, after a wait. */
  readonly statuses: readonly string[]
  /** The same of both, read in one request that waits. */
  readonly together: readonly string[]
  /** The error code of a job that the caller cancelled. */
  readonly cancelled: unknown
  /** The ids of the list, newest first, when it was deleted. */
  readonly listed: readonly string[]
  /** What was wrong, by status. */
  readonly errors: Readonly<Record<number, string>>
}

/** The model server does not answer this question, so that its job does not end by itself. */
export const STALLS = 'stalls'
