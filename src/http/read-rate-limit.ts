/** Limits reads to the tier's reads per minute, for each key and node, with Retry-After and the RateLimit headers. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { MinuteCounter } from '../sharing/minute-counter.ts'
import { type HttpError, tooManyReads } from './errors.ts'
import './request-context.ts'

/** A request that walks through stored jobs counts as this many reads. */
const WALK_READS = 10
/** Limits the routes declared after this call whose config has `limitReads`. */
export function limitReads(app: FastifyInstance, counter: MinuteCounter): void {
  const limit = (
    { caller: { keyId, tier } }: FastifyRequest,
    reply: FastifyReply,
    cost: number,
  ): HttpError | undefined => {
    const most = tier.readsPerMinute
    // The cost is capped, so that a tier with fewer reads per minute can still make such a request once a minute.
    const { count, leftMs } = counter.add(keyId, Math.min(cost, most), most)
    const leftS = Math.ceil(leftMs / 1000)
    reply
      .header('ratelimit-limit', most)
      .header('ratelimit-remaining', Math.max(0, most - count))
      .header('ratelimit-reset', leftS)
    return count > most ? tooManyReads(most, leftS) : undefined
  }
  app.addHook('onRoute', (route) => {
    const isLimited = route.config?.limitReads
    if (!isLimited) return
    const before = route.onRequest === undefined ? [] : [route.onRequest].flat()
    const costOf = (request: FastifyRequest) => (isLimited === true || !isLimited(request) ? 1 : WALK_READS)
    route.onRequest = [...before, (request, reply, done) => done(limit(request, reply, costOf(request)))]
  })
}
