/**
 * Calls the route that reads up to a hundred jobs at once and can wait for them. Servers up to version 0.2.0 do not have the
 * route. Each client finds this out with its first request.
 */
import { retryAfterS } from './backoff.ts'
import { NotFoundError, ParleyError } from './errors.ts'
import type { CallOptions, Exchange } from './exchange.ts'
import type { Job } from './job.ts'
import { onAbort } from './on-abort.ts'
import type { ReadBudget } from './read-budget.ts'

export const MAX_JOBS = 100

interface JobsRead {
  readonly jobs: readonly Job[]
  /** These jobs do not exist, have expired, or belong to another account. */
  readonly not_found: readonly string[]
  /** These jobs did not fit into the response. */
  readonly more: readonly string[]
}

export interface JobsAnswer extends JobsRead {
  /** The server was asked to wait for this many seconds. */
  readonly waitS: number
  /** Present if the server could not wait for the full time, because too many requests are waiting or it is shutting down. */
  readonly retryAfterS: number | undefined
}

export interface JobsWait {
  /** The server may wait for this many seconds before it responds: up to 120. */
  readonly waitS: number
  /** With `all`, the server waits until all of the jobs have finished. With `any`, it waits until one of them has. */
  readonly waitFor: 'all' | 'any'
}

export class JobsRoute {
  readonly #exchange: Exchange
  readonly #budget: ReadBudget
  /** This is null until the server has shown whether it has the route. */
  #exists: boolean | null = null
  /** Other requests wait for this first request, which never rejects. */
  #first: Promise<unknown> | null = null

  constructor(exchange: Exchange, budget: ReadBudget) {
    this.#exchange = exchange
    this.#budget = budget
  }

  /** Becomes true once the server has shown that it does not have the route. */
  get isMissing(): boolean {
    return this.#exists === false
  }

  /** Resolves with null if the server does not have the route. Rejects like any other call. */
  async read(
    ids: readonly string[],
    { waitS: wantedS, waitFor }: JobsWait,
    call: CallOptions,
  ): Promise<JobsAnswer | null> {
    if (this.#exists === null && this.#first !== null) await untilAborted(this.#first, call.signal)
    if (this.#exists === false) return null
    // The first request does not wait, so that an old server is detected at once.
    const waitS = this.#exists === null ? 0 : Math.round(wantedS * 1000) / 1000
    const wait = waitS > 0 ? `&wait=${waitS}&wait_for=${waitFor}` : ''
    const reading = this.#budget.begin()
    const answered = this.#exchange.send<JobsRead>({
      ...call,
      method: 'GET',
      path: `/api/v1/messages?ids=${ids.join()}${wait}`,
      extraSeconds: waitS,
      onHeaders: reading.learn,
    })
    if (this.#exists === null) this.#first = answered.then(nothing, nothing)
    try {
      const { data, response } = await answered
      this.#exists = true
      const header = response.headers.get('retry-after')
      return { ...data, waitS, retryAfterS: retryAfterS(header, this.#exchange.clock.nowMs()) }
    } catch (error) {
      if (!isRouteMissing(error)) throw error
      this.#exists = false
      this.#exchange.logger.info(
        'the server cannot wait for jobs (GET /api/v1/messages?ids=); polling instead',
      )
      return null
    } finally {
      reading.end()
    }
  }
}

/**
 * The route never responds with these statuses, because it lists unknown jobs in `not_found`. A 404 of a proxy is an
 * `UnexpectedResponseError`.
 */
function isRouteMissing(error: unknown): boolean {
  return error instanceof NotFoundError || (error instanceof ParleyError && error.status === 405)
}

/**
 * Resolves when the promise does. Rejects with the signal's reason as soon as the signal aborts. The promise must not reject.
 */
function untilAborted(promise: Promise<unknown>, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const unsubscribe = onAbort(signal, () => reject(signal?.reason))
    promise.then(() => {
      unsubscribe()
      resolve()
    }, reject)
  })
}

function nothing(): void {}
