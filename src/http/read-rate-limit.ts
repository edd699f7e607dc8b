/**
 * Limits the reads of each key on a node to the tier's reads per minute. Responses have the RateLimit headers; rejected ones
 * also have Retry-After.
 */
import './request-context.ts'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { MinuteCounter } from '../sharing/minute-counter.ts'
import { type HttpError, tooManyReads } from './errors.ts'

/** A list counts as this many reads, because it searches the stored jobs. */
const LIST_READS = 10
/** Limits all routes with `limitReads` in their config that are declared after this call. */
export function limitReads(app: FastifyInstance, counter: MinuteCounter): void {
  const limit = (
    { caller: { keyId, tier } }: FastifyRequest,
    reply: FastifyReply,
    cost: number,
  ): HttpError | undefined => {
    const most = tier.readsPerMinute
    // If the tier allows fewer reads than a list costs, one list per minute is still possible.
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
