/** Tells a caller's own server of an outcome: what is sent, and what its answer means for the next attempt (SPEC §6). */
import { jobViewJson } from '../job/view.ts'
import type { PostRequest, PostResult } from '../net/post.ts'
import { sign } from '../net/signature.ts'
import type { Secrets } from '../store/account-store.ts'
import type { CallbackNext, DueCallback } from '../store/callback-store.ts'

/** How long the secret before a rotation signs beside the new one. */
const ROTATION_MS = 86_400_000
/** Each pause is up to this part shorter or longer, so that what failed together does not come back together. */
const JITTER = 0.2
/** These say that the receiver will be back: its Retry-After counts. */
const BUSY = [429, 502, 503, 504]
const GONE = 410

/** The signed POST of SPEC §6. The payload goes out as the text that it was stored as. */
export function callbackRequest({ callback, view, secrets }: DueCallback, nowMs: number): PostRequest {
  const body = `${jobViewJson(view).slice(0, -1)},"callback_payload":${callback.payloadJson}}`
  const timestampS = Math.floor(nowMs / 1000)
  return {
    url: callback.url,
    body,
    headers: {
      ...callback.headers,
      'content-type': 'application/json',
      'webhook-id': view.id,
      'webhook-timestamp': String(timestampS),
      'webhook-signature': sign(secretsInForce(secrets, nowMs), view.id, timestampS, body),
    },
  }
}

function secretsInForce({ current, previous }: Secrets, nowMs: number): string[] {
  return previous && nowMs < previous.rotatedAtMs + ROTATION_MS ? [current, previous.secret] : [current]
}

/**
 * @param attempt 1 for the first
 * @param pausesS the pause before each attempt; their number is the number of attempts
 * @param random from 0 up to but not including 1
 */
export function nextAttempt(
  result: PostResult,
  attempt: number,
  pausesS: readonly number[],
  random: number,
  nowMs: number,
): CallbackNext {
  if (result.kind === 'answered') {
    if (result.status >= 200 && result.status < 300) return { kind: 'delivered' }
    if (result.status === GONE) return { kind: 'given up' }
  }
  const pauseS = pausesS[attempt]
  if (pauseS === undefined) return { kind: 'given up' }
  const pauseMs = pauseS * 1000 * (1 + JITTER * (2 * random - 1))
  const askedMs = result.kind === 'answered' && BUSY.includes(result.status) ? (result.retryAfterMs ?? 0) : 0
  return { kind: 'due', atMs: Math.ceil(nowMs + Math.max(pauseMs, askedMs)) }
}
