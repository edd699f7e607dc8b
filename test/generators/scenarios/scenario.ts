/** The calls that each generated client makes, and the results that it must get. */

export interface Server {
  readonly url: string
  readonly key: string
  /** An API key that may make only one read per minute. */
  readonly slowKey: string
}

export interface Seen {
  /** The answer of a single create. */
  readonly answer: unknown
  /** The IDs of the jobs in a batch. */
  readonly jobIds: readonly string[]
  /** The status of each job, read one after the other with a wait. */
  readonly statuses: readonly string[]
  /** The statuses of both jobs, read in one request that waits. */
  readonly together: readonly string[]
  /** The error code of a job that its caller cancelled. */
  readonly cancelled: unknown
  /** The IDs in the list, newest first, after the deletion. */
  readonly listed: readonly string[]
  /** The error details by HTTP status. */
  readonly errors: Readonly<Record<number, string>>
}

/** The model server does not answer this message, so the job does not end. */
export const STALLS = 'stalls'
