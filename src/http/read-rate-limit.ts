/** Limits reads to the tier's reads per minute, for each key and node, with Retry-After and the RateLimit headers. */
import rateLimit from '@fastify/rate-limit'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Clock } from '../clock.ts'
import { tooManyReads } from './errors.ts'
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

  /** Takes one read back, which is counted again elsewhere. */
  undo(keyId: string): void {
    const window = this.#windows.get(keyId)
    if (window) window.reads -= 1
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
export async function limitReads(app: FastifyInstance, counter: ReadCounter): Promise<void> {
  /** The plugin creates its store itself, so it gets a class around ours. */
  class Store {
    readonly #cost: number

    constructor(options: object) {
      this.#cost = 'cost' in options && typeof options.cost === 'number' ? options.cost : 1
    }

    incr(
      keyId: string,
      callback: (error: Error | null, result?: { current: number; ttl: number }) => void,
      _windowMs: number,
      limit: number,
    ): void {
      // Even a tier with few reads per minute can make such a request once a minute.
      const { reads, leftMs } = counter.add(keyId, Math.min(this.#cost, limit), limit)
      callback(null, { current: reads, ttl: leftMs })
    }

    child(options: object): Store {
      return new Store(options)
    }
  }
  await app.register(rateLimit, {
    global: false,
    enableDraftSpec: true,
    timeWindow: WINDOW_MS,
    store: Store,
    errorResponseBuilder: (_request, { max, ttl }) => tooManyReads(max, Math.ceil(ttl / 1000)),
  })
  const limiter = (cost: number) => {
    const options = {
      max: (request: FastifyRequest) => request.caller.tier.readsPerMinute,
      keyGenerator: (request: FastifyRequest) => request.caller.keyId,
      cost,
    }
    return app.rateLimit(options)
  }
  const one = limiter(1)
  const walk = limiter(WALK_READS)
  app.addHook('onRoute', (route) => {
    const isLimited = route.config?.limitReads
    if (!isLimited) return
    const before = route.onRequest === undefined ? [] : [route.onRequest].flat()
    if (isLimited === true) route.onRequest = [...before, one]
    else {
      route.onRequest = [
        ...before,
        function limit(request, reply) {
          return (isLimited(request) ? walk : one).call(app, request, reply)
        },
      ]
    }
  })
}
