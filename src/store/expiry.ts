/** When a finished job can no longer be read, by the same rule in every store. */

/** The parameters that decide whether a finished job has expired. */
export interface Expiry {
  readonly nowMs: number
  readonly retentionMs: number
}

/** When a finished job expires, unless its callback is still owed. */
export function expiresAtMs(settledAtMs: number, cacheTtlS: number, retentionMs: number): number {
  return settledAtMs + Math.max(retentionMs, cacheTtlS * 1000)
}
