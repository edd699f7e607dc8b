/** Cancels all jobs of an account, or deletes the account with all its data, in many short transactions. */
import { randomBytes } from 'node:crypto'
import { type Clock, wait } from '../clock.ts'
import { AFTER_ALL, BEFORE_ALL } from '../store/chunked-search.ts'
import type { OperatorStore } from '../store/operator-store.ts'
import { tryScrub } from './scrub.ts'

/** How many jobs one transaction cancels. It is few, so that other writes do not wait for long. */
const JOBS_PER_STEP = 250
/**
 * How long every node needs to notice that an account was suspended or its jobs were cancelled, and to store what it had
 * accepted before, in milliseconds.
 */
const PROPAGATION_MS = 3000

export interface JobsToCancel {
  readonly account: string
  /** Whether to cancel running jobs, too, not only queued ones. */
  readonly running: boolean
}

/** Cancels the current jobs of the account. Returns how many. */
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
 * Suspends the account and cancels its jobs, including those that nodes accept until they notice the suspension. Returns how
 * many jobs were cancelled; null if the account does not exist.
 */
export async function suspendAndCancel(
  store: Pick<OperatorStore, 'suspend' | 'cancelJobs'>,
  clock: Clock,
  account: string,
): Promise<number | null> {
  if (!(await store.suspend(account, clock.nowMs()))) return null
  const cancelled = await cancelJobsOf(store, clock, { account, running: true })
  await wait(clock, PROPAGATION_MS)
  return cancelled + (await cancelJobsOf(store, clock, { account, running: true }))
}

/**
 * How often the deletion looks for further jobs. The second pass finds all jobs that were being accepted when the deletion
 * started, so more passes mean that new jobs keep arriving.
 */
const MAX_PASSES = 5

export interface AccountDeletion {
  readonly account: string
  /** Whether to scrub the database after the deletion. */
  readonly scrub: boolean
  readonly onProgress: (progress: DeletionProgress) => void
}

export interface DeletionProgress {
  readonly step: 'waiting' | 'cancelling' | 'deleting' | 'scrubbing'
  readonly cancelled: number
  readonly deleted: number
}

export type AccountDeletionResult =
  | {
      readonly kind: 'deleted'
      readonly cancelled: number
      readonly jobs: number
      /** The name under which the usage is kept, for invoices; null if there was no usage. */
      readonly usageAs: string | null
      /** Why the database was not scrubbed; null if it was, or if that was not requested. */
      readonly notScrubbed: string | null
    }
  | { readonly kind: 'unknown' }
  /** New jobs of the account kept arriving. The jobs deleted so far stay deleted; another call may succeed. */
  | { readonly kind: 'still used'; readonly cancelled: number; readonly jobs: number }

/**
 * Deletes an account permanently, even while servers run: suspends it, cancels its jobs, deletes its jobs and files, and then
 * the account with its keys and secrets. The sums of its usage are kept under another name.
 */
export async function deleteAccount(
  store: OperatorStore,
  clock: Clock,
  { account, scrub, onProgress }: AccountDeletion,
): Promise<AccountDeletionResult> {
  if (!(await store.suspend(account, clock.nowMs()))) return { kind: 'unknown' }
  const done = { cancelled: 0, jobs: 0 }
  const usageAs = `deleted-${randomBytes(4).toString('hex')}`
  const report = (step: DeletionProgress['step']) =>
    onProgress({ step, cancelled: done.cancelled, deleted: done.jobs })
  const waitForAllNodes = () => {
    report('waiting')
    return wait(clock, PROPAGATION_MS)
  }
  await waitForAllNodes()
  for (let pass = 0; pass < MAX_PASSES; pass++) {
    report('cancelling')
    const cancelled = await cancelJobsOf(store, clock, { account, running: true })
    done.cancelled += cancelled
    // Executions must end, and pending requests get their responses, before jobs are deleted: a pending request whose job was
    // deleted would create it again.
    if (cancelled > 0) await waitForAllNodes()
    report('deleting')
    const { deleted, open } = await deleteJobs(store, account, (jobs) => {
      done.jobs += jobs
      report('deleting')
    })
    if (deleted > 0 || open > 0) continue
    await deleteFiles(store, clock, account)
    if ((await store.deleteAccount(account, usageAs)) === 'has open jobs') {
      await waitForAllNodes()
      continue
    }
    // Deletes the jobs that were stored after the last pass and have finished. No more jobs can be stored now.
    await deleteJobs(store, account, (jobs) => {
      done.jobs += jobs
      report('deleting')
    })
    if (scrub) report('scrubbing')
    const [used] = await store.listUsage({ account: usageAs, limit: 1 })
    const kept = { usageAs: used === undefined ? null : usageAs }
    return { kind: 'deleted', ...done, ...kept, notScrubbed: scrub ? await tryScrub(store) : null }
  }
  return { kind: 'still used', ...done }
}

/**
 * Deletes the current files. No new upload can start, because the account is suspended, and an upload in progress fails at its
 * next piece.
 */
async function deleteFiles(
  store: Pick<OperatorStore, 'deleteBatchesOf' | 'deleteFilesOf' | 'purgeFiles'>,
  clock: Clock,
  account: string,
): Promise<void> {
  await store.deleteBatchesOf(account)
  await store.deleteFilesOf(account)
  while (await store.purgeFiles(clock.nowMs()));
}

async function deleteJobs(
  store: Pick<OperatorStore, 'deleteJobsOf'>,
  account: string,
  onDeleted: (jobs: number) => void,
): Promise<{ deleted: number; open: number }> {
  const totals = { deleted: 0, open: 0 }
  for (let after: string | null = BEFORE_ALL; after !== null; ) {
    const step = await store.deleteJobsOf(account, after)
    if (step.deleted > 0) onDeleted(step.deleted)
    totals.deleted += step.deleted
    totals.open += step.open
    after = step.next
  }
  return totals
}
