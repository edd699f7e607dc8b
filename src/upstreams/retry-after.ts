/**
 * Reads when a server accepts further requests: its Retry-After and the rate limits that it reports. Also computes the pause
 * before a request tries its targets again: exponential backoff with jitter, and at least Retry-After within bounds.
 */

import { isObject } from '../json-object.ts'
import type { ServerRate, UpstreamError } from './model-server.ts'

/** Before jitter, the pause after the first round has this length. Each further round multiplies it by BACKOFF_FACTOR. */
export const FIRST_BACKOFF_MS = 500
export const BACKOFF_FACTOR = 4
/**
 * Pauses vary by up to this fraction, but are never shorter than Retry-After, so that jobs that failed together do not retry
 * together.
 */
export const JITTER = 0.25
/** A longer Retry-After is shortened to this, because a run has a deadline, and a try before that time may succeed. */
export const MAX_RETRY_AFTER_MS = 60_000

type Headers = { readonly [name: string]: string | string[] | undefined }

/** Returns the server's Retry-After, counted from now; null if it is absent or malformed. */
export function readRetryAfter(headers: Headers, nowMs: number): number | null {
  const ms = headers['retry-after-ms']
  if (typeof ms === 'string' && /^\d+(\.\d+)?$/.test(ms)) return Math.ceil(Number(ms))
  const value = headers['retry-after']
  if (typeof value !== 'string') return null
  if (/^\d+(\.\d+)?$/.test(value)) return Math.ceil(Number(value) * 1000)
  const date = Date.parse(value)
  return Number.isNaN(date) ? null : Math.max(0, date - nowMs)
}

const RETRY_INFO = /^(\d+(?:\.\d+)?)s$/

/** Returns the delay in the `details` of an error, which Google sends instead of a header; null if there is none. */
export function readRetryDelay(details: unknown): number | null {
  if (!Array.isArray(details)) return null
  for (const detail of details) {
    const [, seconds] = RETRY_INFO.exec(isObject(detail) ? String(detail.retryDelay) : '') ?? []
    if (seconds !== undefined) return Math.ceil(Number(seconds) * 1000)
  }
  return null
}

export function boundedRetryAfterMs({ retryAfterMs }: UpstreamError): number | null {
  return retryAfterMs === null ? null : Math.min(retryAfterMs, MAX_RETRY_AFTER_MS)
}

/** Returns the pause after a round in which all targets failed. `random` is from 0 up to but not including 1. */
export function roundPauseMs(round: number, retryAfterMs: number, random: number): number {
  const backoffMs = FIRST_BACKOFF_MS * BACKOFF_FACTOR ** (round - 1)
  return Math.max(backoffMs * (1 - JITTER + 2 * JITTER * random), retryAfterMs * (1 + JITTER * random))
}

const MINUTE_MS = 60_000
const DURATION = /(\d+(?:\.\d+)?)(ms|s|m|h|d)/g
const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** Returns null if the headers do not show what is left. A limit of 0 is ignored, because some servers mean no limit. */
export function readRateHeaders(headers: Headers): ServerRate | null {
  const of = (name: 'requests' | 'tokens') => {
    const resetMs = durationMs(headers[`x-ratelimit-reset-${name}`]) ?? MINUTE_MS
    const limit = numberOf(headers[`x-ratelimit-limit-${name}`])
    if (limit === 0) return { limit: Number.POSITIVE_INFINITY, left: Number.POSITIVE_INFINITY, resetMs }
    return { limit, left: numberOf(headers[`x-ratelimit-remaining-${name}`]), resetMs }
  }
  const [requests, tokens] = [of('requests'), of('tokens')]
  const left = { requests: requests.left, tokens: tokens.left }
  if (!Number.isFinite(left.requests) && !Number.isFinite(left.tokens)) return null
  const limit = { requests: requests.limit, tokens: tokens.limit }
  return { limit, left, resetMs: { requests: requests.resetMs, tokens: tokens.resetMs } }
}

function numberOf(header: Headers[string]): number {
  return typeof header === 'string' && /^\d+$/.test(header) ? Number(header) : Number.POSITIVE_INFINITY
}

/** Reads durations such as `6m0s`, `20ms` or `60` (seconds); null for anything else. */
function durationMs(header: Headers[string]): number | null {
  if (typeof header !== 'string') return null
  if (/^\d+(\.\d+)?$/.test(header)) return Number(header) * 1000
  const parts = [...header.matchAll(DURATION)]
  if (parts.length === 0 || parts.map(([part]) => part).join('') !== header) return null
  return parts.reduce((sum, [, amount, unit = '']) => sum + Number(amount) * (UNIT_MS[unit] ?? 0), 0)
}
