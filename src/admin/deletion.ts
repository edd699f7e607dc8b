/**
 * Deletes accounts in many short transactions, cancels their jobs, keeps their usage under another name, and can scrub the
 * database afterwards.
 */
import { randomBytes } from 'node:crypto'
import { type Clock, wait } from '../clock.ts'
import { AFTER_ALL, BEFORE_ALL } from '../store/chunked-search.ts'
import type { OperatorStore } from '../store/operator-store.ts'
import { Type } from '../typed-schema.ts'

/** A step is one transaction, which is short so that other writes do not wait for long. */
const JOBS_PER_STEP = 250
/** After this time, every node has noticed a suspension or cancellation, and has stored what it had accepted before. */
const PROPAGATION_MS = 3000

export interface JobsToCancel {
  readonly account: string
  /** `running` is false if only queued jobs are cancelled. */
  readonly running: boolean
}

/** Returns how many jobs were cancelled. */
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

/** Also cancels jobs that nodes accept until they notice the suspension. Returns null if the account does not exist. */
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

/** The deletion gives up after this many passes, because new jobs keep arriving. */
const MAX_PASSES = 5

export interface AccountDeletion {
  readonly account: string
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
      /** The usage is kept for invoices under this name, which is null if the account had no usage. */
      readonly usageAs: string | null
      /** `notScrubbed` is null if the database was scrubbed, or if that was not requested. */
      readonly notScrubbed: string | null
    }
  | { readonly kind: 'unknown' }
  /** New jobs kept arriving. The deleted jobs stay deleted, and another call may succeed. */
  | { readonly kind: 'still used'; readonly cancelled: number; readonly jobs: number }

/** Deletes an account permanently, even while servers run. The sums of its usage are kept under another name. */
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
    // If a pending request lost its job, it would create the job again. So executions must end, and pending requests get their
    // responses, before jobs are deleted.
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
    // Deletes jobs that were stored and finished after the last pass. The account no longer exists, so no others follow.
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

/** The suspended account can start no upload, and an upload in progress fails at its next piece. */
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

/** Returns why the database was not scrubbed; null if it was. Does not reject, because the deletion before it has succeeded. */
export async function tryScrub(store: Pick<OperatorStore, 'scrub'>): Promise<string | null> {
  try {
    await store.scrub()
    return null
  } catch (error) {
    return messageOf(error)
  }
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

export const scrubField = Type.Boolean({
  description:
    'Whether to scrub deleted data from the disk; `true` if absent. On SQLite this rewrites the whole file and blocks other writes meanwhile.',
})

export const NO_SCRUB = [
  '--no-scrub',
  'do not scrub: deleted data stays in free pages on the disk until they are reused (run `parley scrub` later)',
] as const

export const SCRUB_HELP = `
Scrubbing removes deleted data from the disk as far as the database can. On SQLite it rewrites the whole file, which needs
as much free disk space as the file takes, both next to the file and for temporary files (in SQLITE_TMPDIR, TMPDIR or
/var/tmp). Other writes wait until it has finished; after 5 s, a running server responds to new jobs with 503. On Postgres
it vacuums the tables. Backups and log files are not changed. The audit log still shows what was deleted and by whom.`

/** A command does not know which database is used, so the text describes both. */
export const SCRUBBED =
  'The database is scrubbed: a SQLite file no longer contains deleted data; Postgres overwrites deleted rows over time.'

export function afterDeletion(scrub: boolean): string {
  return scrub
    ? SCRUBBED
    : 'Its data stays in free pages on the disk until they are reused. Run `parley scrub` to remove it now.'
}
