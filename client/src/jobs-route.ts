/**
 * Calls the route that reads, and waits for, up to a hundred jobs at once. Servers up to 0.2.0 lack it, which each client finds
 * out with its first request.
 */
import { retryAfterS } from './backoff.ts'
import { NotFoundError, ParleyError } from './errors.ts'
import type { CallOptions, Exchange } from './exchange.ts'
import type { Job } from './job.ts'
import { onAbort } from './on-abort.ts'
import type { ReadBudget } from './read-budget.ts'

/** The maximum number of jobs per request. */
export const MAX_JOBS = 100

interface JobsRead {
  readonly jobs: readonly Job[]
  /** IDs of jobs that do not exist, have expired, or belong to another account. */
  readonly not_found: readonly string[]
  /** IDs of jobs that did not fit into the response. */
  readonly more: readonly string[]
}

export interface JobsAnswer extends JobsRead {
  /** How many seconds the server was asked to wait. */
  readonly waitS: number
  /** Present if the server waited for less than the requested time: too many requests are waiting, or it is shutting down. */
  readonly retryAfterS: number | undefined
}

export interface JobsWait {
  /** How long the server may hold the request open: up to 120 seconds. */
  readonly waitS: number
  /** Whether to wait until all of the jobs have finished, or any of them. */
  readonly waitFor: 'all' | 'any'
}

export class JobsRoute {
  readonly #exchange: Exchange
  readonly #budget: ReadBudget
  /** Null until the server has responded. */
  #exists: boolean | null = null
  /** The first request, for which the others wait. It never rejects. */
  #first: Promise<unknown> | null = null

  constructor(exchange: Exchange, budget: ReadBudget) {
    this.#exchange = exchange
    this.#budget = budget
  }

  /** Whether the server is known not to have the route. */
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
    // The first request does not wait, so that an old server is detected right away.
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
 * Whether the server lacks the route. The route itself never responds like this: it lists unknown jobs in `not_found`. A proxy's own
 * 404 is an `UnexpectedResponseError`.
 */
function isRouteMissing(error: unknown): boolean {
  return error instanceof NotFoundError || (error instanceof ParleyError && error.status === 405)
}

/** Resolves with the promise, which never rejects; rejects with the signal's reason as soon as it aborts. */
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
