/** Decides when finished jobs expire, and which queued jobs are overdue, for both stores. */
import { leastJobId } from '../job/job-id.ts'

export interface Expiry {
  readonly nowMs: number
  readonly retentionMs: number
}

/** A job does not expire while its callback is pending. */
export function expiresAtMs(settledAtMs: number, cacheTtlS: number, retentionMs: number): number {
  return settledAtMs + Math.max(retentionMs, cacheTtlS * 1000)
}

/**
 * Queued jobs with lower IDs than the result are overdue, if they have waited since their creation. If the outage began too
 * recently, no job has a lower ID.
 */
export function createdBefore(
  { unavailableSinceMs, patienceMs }: { readonly unavailableSinceMs: number; readonly patienceMs: number },
  nowMs: number,
): string {
  const beforeMs = nowMs - patienceMs
  return leastJobId(unavailableSinceMs <= beforeMs ? beforeMs : 0)
}
