/** When finished jobs expire, and which queued jobs are overdue, for both stores. */
import { leastJobId } from '../job/job-id.ts'

export interface Expiry {
  readonly nowMs: number
  readonly retentionMs: number
}

/**
 * When a finished job expires, unless its callback is pending. The caller can read a job at least as long as its response is
 * cached.
 */
export function expiresAtMs(settledAtMs: number, cacheTtlS: number, retentionMs: number): number {
  return settledAtMs + Math.max(retentionMs, cacheTtlS * 1000)
}

/**
 * Returns the ID before which queued jobs are overdue, because they have waited since their creation. If the outage began too
 * recently, no job has a lower ID. For a job that stores when its wait began, that time decides instead.
 */
export function createdBefore(
  { unavailableSinceMs, patienceMs }: { readonly unavailableSinceMs: number; readonly patienceMs: number },
  nowMs: number,
): string {
  const beforeMs = nowMs - patienceMs
  return leastJobId(unavailableSinceMs <= beforeMs ? beforeMs : 0)
}
