/**
 * How long a request pauses before it tries its targets again: exponential backoff with jitter, at least the model server's
 * Retry-After, within bounds.
 */
import { isObject } from '../json-object.ts'
import type { UpstreamError } from './model-server.ts'

/** The pause after the first round, before jitter. It grows by BACKOFF_FACTOR. */
export const FIRST_BACKOFF_MS = 500
export const BACKOFF_FACTOR = 4
/** Pauses are up to this fraction shorter or longer, so that jobs that failed together do not retry together. */
export const JITTER = 0.25
/** No request waits longer than this for a Retry-After: a run has a deadline, and the last try may succeed. */
export const MAX_RETRY_AFTER_MS = 60_000

/** The delay that Retry-After asks for, in milliseconds from now; null if it is absent or malformed. */
export function readRetryAfter(
  headers: { readonly [name: string]: string | string[] | undefined },
  nowMs: number,
): number | null {
  const ms = headers['retry-after-ms']
  if (typeof ms === 'string' && /^\d+(\.\d+)?$/.test(ms)) return Math.ceil(Number(ms))
  const value = headers['retry-after']
  if (typeof value !== 'string') return null
  if (/^\d+(\.\d+)?$/.test(value)) return Math.ceil(Number(value) * 1000)
  const date = Date.parse(value)
  return Number.isNaN(date) ? null : Math.max(0, date - nowMs)
}

const RETRY_INFO = /^(\d+(?:\.\d+)?)s$/

/** The delay in the `details` of Google's errors, which have no header, in milliseconds; null if there is none. */
export function readRetryDelay(details: unknown): number | null {
  if (!Array.isArray(details)) return null
  for (const detail of details) {
    const [, seconds] = RETRY_INFO.exec(isObject(detail) ? String(detail.retryDelay) : '') ?? []
    if (seconds !== undefined) return Math.ceil(Number(seconds) * 1000)
  }
  return null
}

/** The delay that a failed call asks for, within bounds; null if it does not ask for one. */
export function boundedRetryAfterMs({ retryAfterMs }: UpstreamError): number | null {
  return retryAfterMs === null ? null : Math.min(retryAfterMs, MAX_RETRY_AFTER_MS)
}

/**
 * The pause after a round in which all targets failed.
 * @param random from 0 up to but not including 1
 */
export function roundPauseMs(round: number, retryAfterMs: number, random: number): number {
  const backoffMs = FIRST_BACKOFF_MS * BACKOFF_FACTOR ** (round - 1)
  return Math.max(backoffMs * (1 - JITTER + 2 * JITTER * random), retryAfterMs * (1 + JITTER * random))
}
