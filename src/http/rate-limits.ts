/** Limits reads by the tier's reads a minute, per key and node, with Retry-After and the RateLimit headers. */
import rateLimit from '@fastify/rate-limit'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { tooManyReads } from './errors.ts'
import { type RateLimitWindows, WINDOW_MS } from './rate-limit-windows.ts'
import './request-context.ts'

/** Applies to every route declared later whose config says `limitReads`. */
export async function limitReads(app: FastifyInstance, windows: RateLimitWindows): Promise<void> {
  /** The plugin makes its store itself, so it is given a class around ours. */
  class Store {
    incr(
      keyId: string,
      callback: (error: Error | null, result?: { current: number; ttl: number }) => void,
    ): void {
      const { reads, leftMs } = windows.count(keyId)
      callback(null, { current: reads, ttl: leftMs })
    }
    child(): Store {
      return new Store()
    }
  }
  await app.register(rateLimit, {
    global: false,
    enableDraftSpec: true,
    timeWindow: WINDOW_MS,
    store: Store,
    errorResponseBuilder: (_request, { max, ttl }) => tooManyReads(max, Math.ceil(ttl / 1000)),
  })
  app.addHook('onRoute', (route) => {
    if (!route.config?.limitReads) return
    const limit = app.rateLimit({
      max: (request: FastifyRequest) => request.caller.tier.readsPerMinute,
      keyGenerator: (request: FastifyRequest) => request.caller.keyId,
    })
    const before = route.onRequest === undefined ? [] : [route.onRequest].flat()
    route.onRequest = [...before, limit]
  })
}
