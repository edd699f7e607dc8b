/** Admin actions on jobs, and on the database that stores them. */
import type { Cancelled, Deleted } from '../../store/admin-action-store.ts'
import type { Expiry } from '../../store/expiry.ts'
import type { JobContent } from '../../store/job-search-store.ts'
import type { OperatorStore } from '../../store/operator-store.ts'
import type { AdminAction } from '../admin-action.ts'
import { tryScrub } from '../scrub.ts'

const NO_SUCH_JOB = 'refused: there is no such job'

export function readContentsAction(
  store: OperatorStore,
  jobId: string,
  expiry: Expiry,
): AdminAction<JobContent | null> {
  return {
    what: 'look at contents',
    target: jobId,
    account: { ofJob: jobId },
    run: () => store.jobContent(jobId, expiry),
    describe: (content) => (content ? 'shown' : NO_SUCH_JOB),
  }
}

export function cancelJobAction(store: OperatorStore, jobId: string, nowMs: number): AdminAction<Cancelled> {
  return {
    what: 'cancel a job',
    target: jobId,
    account: { ofJob: jobId },
    run: () => store.cancelJob(jobId, nowMs),
    describe: (result) => {
      if (result === 'unknown') return NO_SUCH_JOB
      return result === 'cancelled' ? 'cancelled' : 'refused: it had already finished'
    },
  }
}

export interface JobDeletionResult {
  readonly kind: Deleted
  /** Why the database was not scrubbed; null if it was, or if no scrub was requested. */
  readonly notScrubbed: string | null
}

export function deleteJobAction(
  store: OperatorStore,
  { jobId, scrub }: { jobId: string; scrub: boolean },
): AdminAction<JobDeletionResult> {
  return {
    what: 'delete a job',
    target: jobId,
    account: { ofJob: jobId },
    details: { scrub },
    run: async () => {
      const kind = await store.deleteJob(jobId)
      return { kind, notScrubbed: kind === 'deleted' && scrub ? await tryScrub(store) : null }
    },
    describe: ({ kind, notScrubbed }) => {
      if (kind === 'unknown') return NO_SUCH_JOB
      if (kind === 'not ended') return 'refused: it had not finished'
      return notScrubbed === null ? 'deleted' : `deleted, not scrubbed: ${notScrubbed}`
    },
  }
}

/** The result is null, or the reason why the database could not be scrubbed. */
export function scrubAction(store: OperatorStore): AdminAction<string | null> {
  return {
    what: 'scrub the database',
    run: () => tryScrub(store),
    describe: (reason) => (reason === null ? 'scrubbed' : `failed: ${reason}`),
  }
}
