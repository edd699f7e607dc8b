/** What every store says alike of a job that has ended. */
import type { Usage } from '../job/job.ts'

/** What decides at a given moment whether an ended job has expired. */
export interface Expiry {
  readonly nowMs: number
  readonly retentionMs: number
}

/** When it stops being readable, unless its callback is still owed. */
export function expiresAtMs(settledAtMs: number, cacheTtlS: number, retentionMs: number): number {
  return settledAtMs + Math.max(retentionMs, cacheTtlS * 1000)
}

/** Whether a kept answer was its outcome. */
export function cacheHitOf(usageJson: string): boolean {
  return (JSON.parse(usageJson) as Usage).cache_hit
}
