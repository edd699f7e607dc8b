/**
 * Limits the reads of each key on a node to the tier's reads per minute. Responses have the RateLimit headers; rejected ones
 * also have Retry-After.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { MinuteCounter } from '../sharing/minute-counter.ts'
import { type HttpError, tooManyReads } from './errors.ts'
import './request-context.ts'

/** A list counts as this many reads, because it searches the stored jobs. */
const LIST_READS = 10
/** Limits all routes that are declared after this call and have `limitReads` in their config. */
export function limitReads(app: FastifyInstance, counter: MinuteCounter): void {
  const limit = (
    { caller: { keyId, tier } }: FastifyRequest,
    reply: FastifyReply,
    cost: number,
  ): HttpError | undefined => {
    const most = tier.readsPerMinute
    // A tier may allow fewer reads per minute than a list costs. Its accounts can still list once a minute, because the cost is
    // at most the limit.
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
    const costOf = (request: FastifyRequest) => (isLimited === true || !isLimited(request) ? 1 : LIST_READS)
    route.onRequest = [...before, (request, reply, done) => done(limit(request, reply, costOf(request)))]
  })
}
