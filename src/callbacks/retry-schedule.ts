/**
 * Decides when a callback is attempted again: by the schedule, but not before the receiver's Retry-After. It fails after
 * the last attempt of the schedule, or after a 410. Also decides for how long a callback may be pending; `delivery-queue.ts`
 * fails it after that.
 */
import { wholeMs } from '../clock.ts'
import type { PostResult } from '../net/post.ts'
import type { CallbackNext } from '../store/callback-store.ts'

const DAY_MS = 86_400_000
/** A pause is longer or shorter by up to this fraction, so that callbacks that failed together are not retried together. */
const JITTER = 0.2
/** A receiver that expects to recover responds with these statuses. With others, Parley ignores Retry-After. */
const RETRY_AFTER_STATUSES: readonly number[] = [429, 502, 503, 504]
const GONE = 410

/**
 * @param tries attempts that count in the schedule, including this one
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
  return { kind: 'due', atMs: Math.ceil(nowMs + Math.max(pauseMs, retryAfterMs(result))), counts: true }
}

function retryAfterMs(result: PostResult): number {
  if (result.kind !== 'answered' || !RETRY_AFTER_STATUSES.includes(result.status)) return 0
  return result.retryAfterMs ?? 0
}

/** Returns how long the pauses of the schedule can take together; at least a day. */
export function maxOwedMs(pausesS: readonly number[]): number {
  const scheduleMs = wholeMs(pausesS.reduce((total, pauseS) => total + pauseS, 0))
  return Math.max(DAY_MS, scheduleMs * (1 + JITTER))
}
