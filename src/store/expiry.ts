/** The rules, one for both stores, by which time ends jobs: when finished ones expire, and which queued ones are overdue. */
import { leastJobId } from '../job/job-id.ts'

/** The parameters of the rule. */
export interface Expiry {
  readonly nowMs: number
  readonly retentionMs: number
}

/** When a finished job expires, if its callback is not pending. */
export function expiresAtMs(settledAtMs: number, cacheTtlS: number, retentionMs: number): number {
  return settledAtMs + Math.max(retentionMs, cacheTtlS * 1000)
}

/**
 * Returns an ID: queued jobs with lower IDs that have waited since their creation are overdue. If the outage began too
 * recently, no job has a lower ID. (If a job stores when its wait began, that decides instead.)
 */
export function createdBefore(
  { unavailableSinceMs, patienceMs }: { readonly unavailableSinceMs: number; readonly patienceMs: number },
  nowMs: number,
): string {
  const beforeMs = nowMs - patienceMs
  return leastJobId(unavailableSinceMs <= beforeMs ? beforeMs : 0)
}
