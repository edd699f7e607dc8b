/** Declares the calls that each generated client makes, and the results that it must get. */

export interface Server {
  readonly url: string
  readonly key: string
  readonly slowKey: string
}

export interface Seen {
  readonly answer: unknown
  readonly jobIds: readonly string[]
  /** The jobs are read one after the other, each with a wait. */
  readonly statuses: readonly string[]
  readonly together: readonly string[]
  readonly cancelled: unknown
  /** The list is read after the deletion. The newest job comes first. */
  readonly listed: readonly string[]
  readonly errors: Readonly<Record<number, string>>
}

/** The model server does not answer this message, so the job does not end. */
export const STALLS = 'stalls'
