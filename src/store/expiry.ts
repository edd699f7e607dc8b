/** Decides when a finished job can no longer be read: one rule for both stores. */

/** The parameters of the rule. */
export interface Expiry {
  readonly nowMs: number
  readonly retentionMs: number
}

/** When a finished job expires, if its callback is not pending. */
export function expiresAtMs(settledAtMs: number, cacheTtlS: number, retentionMs: number): number {
  return settledAtMs + Math.max(retentionMs, cacheTtlS * 1000)
}
