/** How long to wait before something is tried again. */

const FIRST_MS = 500
const LONGEST_MS = 8_000

/**
 * Twice as long with each failure, and shorter by up to a half at random, so that many clients do not come back at once;
 * never before the server asked for.
 *
 * @param failures how often it has failed so far, at least once
 * @param retryAfterS what the server asked for, in seconds
 */
export function backoffMs(
  failures: number,
  retryAfterS: number | undefined,
  random: () => number = Math.random,
): number {
  const pauseMs = Math.min(FIRST_MS * 2 ** (failures - 1), LONGEST_MS)
  return Math.max(pauseMs * (1 - random() / 2), (retryAfterS ?? 0) * 1000)
}

/** Seconds from a Retry-After header, which is a number of them or a date; undefined where it is neither. */
export function retryAfterS(header: string | null, nowMs: number): number | undefined {
  if (header === null) return undefined
  if (/^\d+$/.test(header)) return Number(header)
  const atMs = Date.parse(header)
  return Number.isNaN(atMs) ? undefined : Math.max(0, Math.ceil((atMs - nowMs) / 1000))
}
