/** Computes how long to wait before a retry. */

const FIRST_MS = 500
const MAX_MS = 8_000

/**
 * Returns a delay in milliseconds, which is never shorter than the server's Retry-After. The delay doubles with each failure,
 * up to eight seconds. It is randomly shortened by up to half, so that many clients do not retry at the same moment.
 *
 * @param failures how many tries have failed so far, at least 1
 * @param retryAfterS the server's Retry-After, in seconds
 */
export function backoffMs(
  failures: number,
  retryAfterS: number | undefined,
  random: () => number = Math.random,
): number {
  const pauseMs = Math.min(FIRST_MS * 2 ** (failures - 1), MAX_MS)
  return Math.max(pauseMs * (1 - random() / 2), (retryAfterS ?? 0) * 1000)
}

/** The header contains a number of seconds or a date. Returns seconds, or undefined if the header contains neither. */
export function retryAfterS(header: string | null, nowMs: number): number | undefined {
  if (header === null) return undefined
  if (/^\d+$/.test(header)) return Number(header)
  const atMs = Date.parse(header)
  return Number.isNaN(atMs) ? undefined : Math.max(0, Math.ceil((atMs - nowMs) / 1000))
}
