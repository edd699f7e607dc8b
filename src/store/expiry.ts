/** When an ended job can no longer be read, by the same rule in every store. */

/** What decides at a given moment whether an ended job has expired. */
export interface Expiry {
  readonly nowMs: number
  readonly retentionMs: number
}

/** When an ended job expires, unless its callback is still owed. */
export function expiresAtMs(settledAtMs: number, cacheTtlS: number, retentionMs: number): number {
  return settledAtMs + Math.max(retentionMs, cacheTtlS * 1000)
}
