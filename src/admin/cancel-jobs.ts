/** Cancels all jobs of an account, in steps that are each one short transaction. */
import type { Clock } from '../clock.ts'
import type { OperatorStore } from '../store/operator-store.ts'
import { AFTER_ALL } from '../store/pagination.ts'

/** Jobs cancelled in one transaction. It is small so that other writes do not wait for long. */
const JOBS_PER_STEP = 250
/** After this time every node knows that an account is suspended or its jobs are cancelled, and has stored what it had accepted before. */
const PROPAGATION_MS = 3000

export interface JobsToCancel {
  readonly account: string
  /** Whether to cancel running jobs in addition to queued ones. */
  readonly running: boolean
}

/** Cancels the jobs that the account has now; returns how many. */
export async function cancelJobsOf(
  store: Pick<OperatorStore, 'cancelJobs'>,
  clock: Pick<Clock, 'nowMs'>,
  { account, running }: JobsToCancel,
): Promise<number> {
  let cancelled = 0
  for (;;) {
    const step = await store.cancelJobs({
      account,
      running,
      beforeJobId: AFTER_ALL,
      limit: JOBS_PER_STEP,
      nowMs: clock.nowMs(),
    })
    cancelled += step
    if (step < JOBS_PER_STEP) return cancelled
  }
}

/**
 * Suspends the account, and cancels its jobs including those that nodes accepted before they knew of the suspension. Returns
 * how many jobs were cancelled; null if the account does not exist.
 */
export async function suspendAndCancel(
  store: Pick<OperatorStore, 'suspend' | 'cancelJobs'>,
  clock: Clock,
  account: string,
): Promise<number | null> {
  if (!(await store.suspend(account, clock.nowMs()))) return null
  const cancelled = await cancelJobsOf(store, clock, { account, running: true })
  await waitForAllNodes(clock)
  return cancelled + (await cancelJobsOf(store, clock, { account, running: true }))
}

/** Resolves when every node has seen what was changed before the call. */
export function waitForAllNodes(clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    clock.after(PROPAGATION_MS, resolve)
  })
}
