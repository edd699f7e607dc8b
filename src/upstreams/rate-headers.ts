/**
 * Reads the rate limits that a server reports: `x-ratelimit-limit-requests`, `x-ratelimit-remaining-requests`,
 * `x-ratelimit-reset-requests`, and the same headers for tokens.
 */
import type { ServerRate } from './model-server.ts'

type Headers = { readonly [name: string]: string | string[] | undefined }

const MINUTE_MS = 60_000
const DURATION = /(\d+(?:\.\d+)?)(ms|s|m|h|d)/g
const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/**
 * Null if the headers do not show what is left. If a limit is 0, it and what is left are ignored: some servers mean no limit.
 */
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

/** Reads durations such as `6m0s`, `20ms` or `60` (seconds) into milliseconds; null for anything else. */
function durationMs(header: Headers[string]): number | null {
  if (typeof header !== 'string') return null
  if (/^\d+(\.\d+)?$/.test(header)) return Number(header) * 1000
  const parts = [...header.matchAll(DURATION)]
  if (parts.length === 0 || parts.map(([part]) => part).join('') !== header) return null
  return parts.reduce((sum, [, amount, unit = '']) => sum + Number(amount) * (UNIT_MS[unit] ?? 0), 0)
}
