/** What takes many steps in the database: cancelling all of an account's jobs, and deleting the account. */
import type { Clock } from '../clock.ts'
import type { OperatorStore } from '../store/operator-store.ts'
import { AFTER_ALL, BEFORE_ALL } from '../store/pagination.ts'
import { messageOf } from './audit.ts'

/** Jobs cancelled in one transaction, so that nothing else waits for long. */
const CANCELLED_AT_ONCE = 250
/** By when every node knows that an account is suspended or its jobs cancelled, and has stored what was on its way. */
const KNOWN_MS = 3000
/** A job that was on its way at the start is met by the second pass at the latest. */
const PASSES = 5

export interface CancelAll {
  readonly account: string
  /** Those that run, too. */
  readonly running: boolean
}

/** Cancels what is there now; returns how many there were. */
export async function cancelAll(
  store: Pick<OperatorStore, 'cancelJobs'>,
  clock: Pick<Clock, 'nowMs'>,
  { account, running }: CancelAll,
  beforeJobId = AFTER_ALL,
): Promise<number> {
  let cancelled = 0
  for (;;) {
    const which = { account, running, beforeJobId, limit: CANCELLED_AT_ONCE, nowMs: clock.nowMs() }
    const some = await store.cancelJobs(which)
    cancelled += some
    if (some < CANCELLED_AT_ONCE) return cancelled
  }
}

/** Suspends the account, and cancels what it has and what came in before every node knew; null if there is no such account. */
export async function suspendAndCancel(
  store: Pick<OperatorStore, 'suspend' | 'cancelJobs'>,
  clock: Clock,
  account: string,
): Promise<number | null> {
  if (!(await store.suspend(account, clock.nowMs()))) return null
  const cancelled = await cancelAll(store, clock, { account, running: true })
  await untilKnown(clock)
  return cancelled + (await cancelAll(store, clock, { account, running: true }))
}

function untilKnown(clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    clock.after(KNOWN_MS, resolve)
  })
}

/** Has what was deleted leave the disk; null, or why that was not possible now. */
export async function scrubOrWhyNot(store: Pick<OperatorStore, 'scrub'>): Promise<string | null> {
  try {
    await store.scrub()
    return null
  } catch (error) {
    return messageOf(error)
  }
}

export interface DeleteAccount {
  readonly account: string
  /** Whether what was deleted is made to leave the disk, too. */
  readonly scrub: boolean
  /** Told of each stretch of the way. */
  readonly onProgress: (progress: DeletionProgress) => void
}

export interface DeletionProgress {
  readonly step: 'waiting' | 'cancelling' | 'deleting' | 'scrubbing'
  readonly cancelled: number
  readonly deleted: number
}

export type AccountDeleted =
  | {
      readonly kind: 'deleted'
      readonly cancelled: number
      readonly jobs: number
      /** Why it was not scrubbed, where it was to be. */
      readonly notScrubbed: string | null
    }
  | { readonly kind: 'unknown' }
  /** New jobs of the account kept coming in. What was deleted stays so; it may be tried again. */
  | { readonly kind: 'still used'; readonly cancelled: number; readonly jobs: number }

/**
 * Deletes an account for good: no new job is let in, those that wait or run are cancelled, then all jobs go with what came
 * of them, and the account with its keys, secrets and usage. Running servers go on meanwhile.
 */
export async function deleteAccount(
  store: OperatorStore,
  clock: Clock,
  { account, scrub, onProgress }: DeleteAccount,
): Promise<AccountDeleted> {
  if (!(await store.suspend(account, clock.nowMs()))) return { kind: 'unknown' }
  const done = { cancelled: 0, jobs: 0 }
  const tell = (step: DeletionProgress['step']) =>
    onProgress({ step, cancelled: done.cancelled, deleted: done.jobs })
  const wait = () => {
    tell('waiting')
    return untilKnown(clock)
  }
  await wait()
  for (let pass = 0; pass < PASSES; pass++) {
    tell('cancelling')
    const cancelled = await cancelAll(store, clock, { account, running: true })
    done.cancelled += cancelled
    // Who waits for one is answered, and its run has ended: a job that vanished would be created again.
    if (cancelled > 0) await wait()
    tell('deleting')
    const { deleted, open } = await deleteJobs(store, account, (some) => {
      done.jobs += some
      tell('deleting')
    })
    if (deleted > 0 || open > 0) continue
    await store.deleteAccount(account)
    if (scrub) tell('scrubbing')
    return { kind: 'deleted', ...done, notScrubbed: scrub ? await scrubOrWhyNot(store) : null }
  }
  return { kind: 'still used', ...done }
}

async function deleteJobs(
  store: Pick<OperatorStore, 'deleteJobsOf'>,
  account: string,
  onDeleted: (some: number) => void,
): Promise<{ deleted: number; open: number }> {
  const sums = { deleted: 0, open: 0 }
  for (let after: string | null = BEFORE_ALL; after !== null; ) {
    const some = await store.deleteJobsOf(account, after)
    if (some.deleted > 0) onDeleted(some.deleted)
    sums.deleted += some.deleted
    sums.open += some.open
    after = some.next
  }
  return sums
}
