/** The promise of a call: it resolves with the data, or with the data and the response. */

/** The data of a call, and the response that it came in. */
export interface WithResponse<T> {
  readonly data: T
  /** The response to the last try; its body has been read. */
  readonly response: Response
  /** The response's `x-request-id`, which is also in the server's log. */
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

  /** What `then` returns is an ordinary promise. */
  static override get [Symbol.species](): PromiseConstructor {
    return Promise
  }

  constructor(answered: Promise<WithResponse<T>>) {
    super((resolve, reject) => {
      answered.then(({ data }) => resolve(data), reject)
    })
    this.#answered = answered
  }

  /** Resolves with the data and the response of the same call, without another request. */
  withResponse(): Promise<WithResponse<T>> {
    // A caller that uses `withResponse` gets the error there, so it must not count as unhandled here.
    this.catch(() => {})
    return this.#answered
  }
}
