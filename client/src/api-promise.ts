/** Defines the promise that calls return. It resolves with the data and, on request, also with the response. */

export interface WithResponse<T> {
  readonly data: T
  /** `response` is the response to the last try. Its body has already been read. */
  readonly response: Response
  /** Contains the `x-request-id` of the response, which is also in the server's log. */
  readonly requestId: string | undefined
}

/**
 * ```ts
 * const job = await parley.messages.retrieve(id)
 * const { data, response } = await parley.messages.retrieve(id).withResponse()
 * response.headers.get('ratelimit-remaining')
 * ```
 */
export class ApiPromise<T> extends Promise<T> {
  readonly #answered: Promise<WithResponse<T>>

  /** `then` returns an ordinary promise. */
  static override get [Symbol.species](): PromiseConstructor {
    return Promise
  }

  constructor(answered: Promise<WithResponse<T>>) {
    super((resolve, reject) => {
      answered.then(({ data }) => resolve(data), reject)
    })
    this.#answered = answered
  }

  /** Resolves with the data and the response of the same call. Sends no further request. */
  withResponse(): Promise<WithResponse<T>> {
    // The caller handles the error of the returned promise, so it must not also count as an unhandled error of this one.
    this.catch(() => {})
    return this.#answered
  }
}
