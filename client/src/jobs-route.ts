/**
 * The route that reads up to a hundred jobs at once, and waits for them. Servers up to 0.2.0 do not have it. The first answer
 * shows that, once for each client.
 */
import { retryAfterS } from './backoff.ts'
import { ParleyError } from './errors.ts'
import type { CallOptions, Exchange } from './exchange.ts'
import type { Job } from './job.ts'
import { onAbort } from './on-abort.ts'
import type { ReadBudget } from './read-budget.ts'

/** The most jobs of one request. */
export const MAX_JOBS = 100

interface JobsRead {
  readonly jobs: readonly Job[]
  /** IDs of jobs that do not exist, have expired, or are another account's. */
  readonly not_found: readonly string[]
  /** IDs of jobs that did not fit into the response. */
  readonly more: readonly string[]
}

export interface JobsAnswer extends JobsRead {
  /** Seconds that the server was asked to wait. */
  readonly waitS: number
  /** Present if the server did not wait, or not to the end: it has too many that wait, or it stops. */
  readonly retryAfterS: number | undefined
}

export interface JobsWait {
  /** How long the server may hold the request open: up to 120 seconds. */
  readonly waitS: number
  /** Until when: all of the jobs have ended, or any. */
  readonly waitFor: 'all' | 'any'
}

export class JobsRoute {
  readonly #exchange: Exchange
  readonly #budget: ReadBudget
  /** Null until the server has answered. */
  #exists: boolean | null = null
  /** The first request, which the others wait for; it never rejects. */
  #first: Promise<unknown> | null = null

  constructor(exchange: Exchange, budget: ReadBudget) {
    this.#exchange = exchange
    this.#budget = budget
  }

  /** Whether the server is known not to have the route. */
  get isMissing(): boolean {
    return this.#exists === false
  }

  /** Resolves with null if the server does not have the route. Rejects as any call does. */
  async read(
    ids: readonly string[],
    { waitS: wantedS, waitFor }: JobsWait,
    call: CallOptions,
  ): Promise<JobsAnswer | null> {
    if (this.#exists === null && this.#first !== null) await untilAborted(this.#first, call.signal)
    if (this.#exists === false) return null
    // The first answer comes at once, so that an old server is known before anything waits for it.
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

/** The route itself never answers so: jobs that do not exist are in `not_found`. */
function isRouteMissing(error: unknown): boolean {
  return error instanceof ParleyError && (error.status === 404 || error.status === 405)
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
