/** The promise of one call: of its data, or of its data together with the response. */

/** The data of a call, and the response that it came in. */
export interface WithResponse<T> {
  readonly data: T
  /** The status and headers of the last try; its body has been read. */
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

  /** The same call, and not another one: resolves with its data and its response. */
  withResponse(): Promise<WithResponse<T>> {
    // A caller that asks for the response gets the error there.
    this.catch(() => {})
    return this.#answered
  }
}
