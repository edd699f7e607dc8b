/** Decides when finished jobs expire, and which queued jobs are overdue, for both stores. */
import { leastJobId } from '../job/job-id.ts'

export interface Expiry {
  readonly nowMs: number
  readonly retentionMs: number
}

/** The caller must check for a pending callback: the job does not expire before that has ended. */
export function expiresAtMs(settledAtMs: number, cacheTtlS: number, retentionMs: number): number {
  return settledAtMs + Math.max(retentionMs, cacheTtlS * 1000)
}

/**
 * Queued jobs with lower IDs than the result are overdue, if they have waited since their creation. If `unavailableSinceMs` is
 * less than `patienceMs` ago, no job has a lower ID.
 */
export function createdBefore(
  { unavailableSinceMs, patienceMs }: { readonly unavailableSinceMs: number; readonly patienceMs: number },
  nowMs: number,
): string {
  const beforeMs = nowMs - patienceMs
  return leastJobId(unavailableSinceMs <= beforeMs ? beforeMs : 0)
}
