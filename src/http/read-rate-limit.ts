/** Limits reads to the tier's reads per minute, for each key and node, with Retry-After and the RateLimit headers. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../clock.ts'
import { type HttpError, tooManyReads } from './errors.ts'
import './request-context.ts'

const WINDOW_MS = 60_000
/** How many reads a walk through stored jobs counts as. */
export const WALK_READS = 10
/** With more keys than this, windows that have ended are dropped. */
const MAX_KEYS = 10_000

export interface ReadCount {
  readonly reads: number
  /** Until the window ends. */
  readonly leftMs: number
}

interface Window {
  reads: number
  readonly endsMs: number
}

/** Counts the reads of each key in its current minute. */
export class ReadCounter {
  readonly #clock: Pick<Clock, 'steadyMs'>
  readonly #windows = new Map<string, Window>()

  constructor(clock: Pick<Clock, 'steadyMs'>) {
    this.#clock = clock
  }

  /**
   * Counts a read, and returns the new count. A request that costs several reads counts as all of them or, if fewer remain,
   * as none: the returned count is then above the limit.
   */
  add(keyId: string, cost = 1, limit = Number.POSITIVE_INFINITY): ReadCount {
    const nowMs = this.#clock.steadyMs()
    let window = this.#windows.get(keyId)
    if (!window || window.endsMs <= nowMs) {
      if (this.#windows.size >= MAX_KEYS) this.#dropEnded(nowMs)
      window = { reads: 0, endsMs: nowMs + WINDOW_MS }
      this.#windows.set(keyId, window)
    }
    const reads = window.reads + cost
    if (cost === 1 || reads <= limit) window.reads = reads
    return { reads, leftMs: window.endsMs - nowMs }
  }

  peek(keyId: string): ReadCount {
    const nowMs = this.#clock.steadyMs()
    const window = this.#windows.get(keyId)
    if (!window || window.endsMs <= nowMs) return { reads: 0, leftMs: WINDOW_MS }
    return { reads: window.reads, leftMs: window.endsMs - nowMs }
  }

  #dropEnded(nowMs: number): void {
    for (const [keyId, { endsMs }] of this.#windows) if (endsMs <= nowMs) this.#windows.delete(keyId)
  }
}

/** Applies to every route declared later whose config has `limitReads`. */
export function limitReads(app: FastifyInstance, counter: ReadCounter): void {
  const limit = (
    { caller: { keyId, tier } }: FastifyRequest,
    reply: FastifyReply,
    cost: number,
  ): HttpError | undefined => {
    const most = tier.readsPerMinute
    // Even a tier with few reads per minute can make a request that costs several once a minute.
    const { reads, leftMs } = counter.add(keyId, Math.min(cost, most), most)
    const leftS = Math.ceil(leftMs / 1000)
    reply
      .header('ratelimit-limit', most)
      .header('ratelimit-remaining', Math.max(0, most - reads))
      .header('ratelimit-reset', leftS)
    return reads > most ? tooManyReads(most, leftS) : undefined
  }
  app.addHook('onRoute', (route) => {
    const isLimited = route.config?.limitReads
    if (!isLimited) return
    const before = route.onRequest === undefined ? [] : [route.onRequest].flat()
    const costOf = (request: FastifyRequest) => (isLimited === true || !isLimited(request) ? 1 : WALK_READS)
    route.onRequest = [...before, (request, reply, done) => done(limit(request, reply, costOf(request)))]
  })
}
