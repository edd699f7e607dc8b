/** What operators do to jobs and their callbacks, as the audit log tells of it. */
import type { Clock } from '../../clock.ts'
import type { Cancelled, Deleted } from '../../store/admin-action-store.ts'
import type { Replay } from '../../store/callback-store.ts'
import type { Expiry } from '../../store/expiry.ts'
import type { JobContent } from '../../store/job-records.ts'
import type { OperatorStore } from '../../store/operator-store.ts'
import type { Intended } from '../audit.ts'
import { type CancelAll, cancelAll, scrubOrWhyNot } from '../bulk-actions.ts'
import { findAccount } from './find-account.ts'

/** Callbacks replayed in one transaction, so that nothing else waits for long. */
const REPLAYED_AT_ONCE = 500

/** Whose job it is says the job itself: without one the act is noted by the job's id alone. */
async function about(store: OperatorStore, jobId: string, expiry: Expiry) {
  const found = await store.findJob(jobId, expiry)
  return { target: jobId, account: found?.account ?? null }
}

const NO_SUCH_JOB = 'refused: there is no such job'

export async function lookAtContents(
  store: OperatorStore,
  jobId: string,
  expiry: Expiry,
): Promise<Intended<JobContent | null>> {
  return {
    what: 'look at contents',
    ...(await about(store, jobId, expiry)),
    work: () => store.jobContent(jobId, expiry),
    told: (found) => (found ? 'shown' : NO_SUCH_JOB),
  }
}

export async function cancelJob(
  store: OperatorStore,
  jobId: string,
  expiry: Expiry,
): Promise<Intended<Cancelled>> {
  return {
    what: 'cancel a job',
    ...(await about(store, jobId, expiry)),
    work: () => store.cancelJob(jobId, expiry.nowMs),
    told: (result) => {
      if (result === 'unknown') return NO_SUCH_JOB
      return result === 'cancelled' ? 'cancelled' : 'refused: it had ended before'
    },
  }
}

/** How many there were; null if there is no such account. */
export function cancelJobsOf(store: OperatorStore, clock: Clock, which: CancelAll): Intended<number | null> {
  const { account, running } = which
  return {
    what: 'cancel the jobs of an account',
    account,
    details: { running },
    work: async () => ((await findAccount(store, account)) ? cancelAll(store, clock, which) : null),
    told: (jobs) => (jobs === null ? 'refused: there is no such account' : `${jobs} cancelled`),
  }
}

export interface JobDeleted {
  readonly kind: Deleted
  /** Why it was not scrubbed, where it was to be. */
  readonly notScrubbed: string | null
}

export async function deleteJob(
  store: OperatorStore,
  { jobId, scrub }: { jobId: string; scrub: boolean },
  expiry: Expiry,
): Promise<Intended<JobDeleted>> {
  return {
    what: 'delete a job',
    ...(await about(store, jobId, expiry)),
    details: { scrub },
    work: async () => {
      const kind = await store.deleteJob(jobId)
      return { kind, notScrubbed: kind === 'deleted' && scrub ? await scrubOrWhyNot(store) : null }
    },
    told: ({ kind, notScrubbed }) => {
      if (kind === 'unknown') return NO_SUCH_JOB
      if (kind === 'not ended') return 'refused: it had not ended'
      return notScrubbed === null ? 'deleted' : `deleted, not scrubbed: ${notScrubbed}`
    },
  }
}

/** Null, or why not. */
export function scrub(store: OperatorStore): Intended<string | null> {
  return {
    what: 'scrub the database',
    work: () => scrubOrWhyNot(store),
    told: (why) => (why === null ? 'scrubbed' : `failed: ${why}`),
  }
}

export async function replayCallback(
  store: OperatorStore,
  jobId: string,
  expiry: Expiry,
): Promise<Intended<Replay>> {
  return {
    what: 'replay a callback',
    ...(await about(store, jobId, expiry)),
    work: () => store.replayCallback(jobId, expiry),
    told: (replay) => {
      if (replay === 'unknown') return 'refused: there is no such callback'
      return replay === 'under way' ? 'refused: it was being sent just then' : 'due again'
    },
  }
}

/** What fails again meanwhile is left alone: all of one moment are replayed. Returns how many there were. */
export function replayFailedCallbacks(
  store: OperatorStore,
  account: string | undefined,
  expiry: Expiry,
): Intended<number> {
  const which = { limit: REPLAYED_AT_ONCE, ...(account !== undefined && { account }) }
  return {
    what: 'replay failed callbacks',
    ...(account !== undefined && { account }),
    work: async () => {
      let replayed = 0
      for (let some = REPLAYED_AT_ONCE; some === REPLAYED_AT_ONCE; replayed += some) {
        some = await store.replayFailedCallbacks(which, expiry)
      }
      return replayed
    },
    told: (callbacks) => `${callbacks} due again`,
  }
}
