/**
 * The Idempotency-Key of a create request: a repeated request with the same key gets the jobs of the first. The store compares
 * the fingerprint of the body in the transaction that accepts the jobs.
 */
import type { FastifyRequest } from 'fastify'
import { bodyFingerprint, type CreateBody, type CreateElement } from '../job/create-body.ts'
import type { Acceptance } from '../queue/job-creator.ts'
import type { Idempotency } from '../store/store.ts'
import { admissionError, idempotencyKeyReused, invalid } from './errors.ts'
import './request-context.ts'

const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,255}$/

export function idempotencyOf(
  key: string | readonly string[],
  { route, body, largeBody }: FastifyRequest,
  elements: readonly CreateElement[],
  untilMs: number,
): Idempotency {
  if (typeof key !== 'string' || !IDEMPOTENCY_KEY.test(key)) {
    throw invalid('Idempotency-Key: must be 1 to 255 visible ASCII characters')
  }
  const fingerprint =
    largeBody === null
      ? bodyFingerprint(route.url ?? '', body as CreateBody['value'], elements)
      : (largeBody.fingerprint ?? '')
  return { key, fingerprint, untilMs }
}

/**
 * The IDs of the earlier request's jobs, for jobs that were not accepted because they repeat it.
 * @throws the error of a key that was used with a different request, or of a quota or cap that is reached
 */
export function earlierJobIds(result: Exclude<Acceptance, { readonly kind: 'accepted' }>): readonly string[] {
  switch (result.kind) {
    case 'repeated':
      return result.jobIds
    case 'conflict':
      throw idempotencyKeyReused()
    default:
      throw admissionError(result)
  }
}
