/** Tells a caller's own server of an outcome: what is sent, and what its answer means for the next attempt (SPEC §6). */
import { wholeMs } from '../clock.ts'
import { jobRecordJson } from '../job/job-record.ts'
import type { PostRequest, PostResult } from '../net/post.ts'
import { sign } from '../net/signature.ts'
import type { Secrets } from '../store/account-store.ts'
import type { CallbackAttempt, CallbackBody, CallbackNext } from '../store/callback-store.ts'

const DAY_MS = 86_400_000
/** How long the secret before a rotation signs beside the new one. */
const ROTATION_MS = DAY_MS
/** Each pause is up to this part shorter or longer, so that what failed together does not come back together. */
const JITTER = 0.2
const REQUEST_TIMEOUT = 408
const TOO_MANY_REQUESTS = 429
/** These say that the receiver will be back: its Retry-After counts. */
const BUSY = [TOO_MANY_REQUESTS, 502, 503, 504]
const OVERLOADED = [REQUEST_TIMEOUT, ...BUSY]
const GONE = 410

/** The signed POST of SPEC §6. The payload goes out as the text that it was stored as. */
export function callbackRequest({ callback, view, secrets }: CallbackBody, nowMs: number): PostRequest {
  const body = `${jobRecordJson(view).slice(0, -1)},"callback_payload":${callback.payloadJson}}`
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

/** What a callback is signed with, the current one first. */
export function secretsInForce({ current, previous }: Secrets, nowMs: number): string[] {
  return previous && nowMs < previous.rotatedAtMs + ROTATION_MS ? [current, previous.secret] : [current]
}

/**
 * @param tries attempts in the schedule, the one that came to this result included
 * @param pausesS the pause before each attempt; their number is the number of attempts
 * @param random from 0 up to but not including 1
 */
export function nextAttempt(
  result: PostResult,
  tries: number,
  pausesS: readonly number[],
  random: number,
  nowMs: number,
): CallbackNext {
  if (result.kind === 'answered') {
    if (result.status >= 200 && result.status < 300) return { kind: 'delivered' }
    if (result.status === GONE) return { kind: 'failed' }
  }
  const pauseS = pausesS[tries]
  if (pauseS === undefined) return { kind: 'failed' }
  const pauseMs = wholeMs(pauseS * (1 + JITTER * (2 * random - 1)))
  const askedMs = result.kind === 'answered' && BUSY.includes(result.status) ? (result.retryAfterMs ?? 0) : 0
  return { kind: 'due', atMs: Math.ceil(nowMs + Math.max(pauseMs, askedMs)), counts: true }
}

/** After so long a callback would be over, had each attempt been made when it was due; never less than a day. */
export function longestOwedMs(pausesS: readonly number[]): number {
  const scheduleMs = wholeMs(pausesS.reduce((total, pauseS) => total + pauseS, 0))
  return Math.max(DAY_MS, scheduleMs * (1 + JITTER))
}

/**
 * What a result says of the receiver: whether it keeps up with what it is sent. One that refuses a callback by a 404 or
 * breaks over it with a 500 does; one that was not asked says nothing.
 */
export function keepsUp(result: PostResult): boolean | null {
  if (result.kind === 'refused') return null
  return result.kind === 'answered' && !OVERLOADED.includes(result.status)
}

/** What is kept of an attempt that began at `atMs`. */
export function attemptOf(attempt: number, atMs: number, result: PostResult): CallbackAttempt {
  const answered = result.kind === 'answered'
  return {
    attempt,
    atMs,
    ms: result.ms,
    status: answered ? result.status : null,
    error: answered ? null : result.message,
    answer: answered ? result.bodyStart : null,
  }
}
