/** How long a model server asks to wait before the next request. The router decides how long it does wait. */

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
