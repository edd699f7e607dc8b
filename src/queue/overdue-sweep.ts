/**
 * Fails queued jobs that have waited too long for model servers, or whose deadline has passed. Running jobs are failed by their
 * execution instead.
 */
import type { Clock } from '../clock.ts'
import type { Overdue, Store } from '../store/store.ts'
import type { RouteLimit, Routes } from '../upstreams/routes.ts'
import type { AfterSettlement } from './after-settlement.ts'
import { DEADLINE_EXCEEDED, outOfPatience } from './execution-result.ts'

/** A statement fails at most this many jobs, so that its transaction stays short. */
const MAX_FAILED = 256
/** The store writes the real receipt. `afterSettlement` only looks for an answer that was cut off, and these jobs have none. */
const NO_RECEIPT = { form: 'text', calls: [] } as const

export interface SweepOptions {
  readonly store: Pick<Store, 'failOverdue'>
  readonly clock: Clock
  readonly afterSettlement: AfterSettlement
}

export interface OverdueSweepOptions extends SweepOptions {
  readonly routes: Pick<Routes, 'limited' | 'limitedAccounts'>
  readonly patienceMs: number
  readonly queuesOf: (route: string) => readonly string[]
  readonly onError: (message: string, error: unknown) => void
}

/** Returns a function that never rejects. It does nothing while an earlier call is in progress. */
export function createOverdueSweep(options: OverdueSweepOptions): () => Promise<void> {
  const { routes, onError } = options
  let isRunning = false
  return async () => {
    if (isRunning) return
    isRunning = true
    try {
      for (const [route, limit] of routes.limited) await failOf(route, null, limit, options)
      for (const [route, accounts] of routes.limitedAccounts) {
        for (const [account, limit] of accounts) await failOf(route, account, limit, options)
      }
    } catch (error) {
      onError('could not fail jobs that have waited too long; retrying', error)
    }
    isRunning = false
  }
}

async function failOf(
  route: string,
  account: string | null,
  { unavailableSinceMs, trouble }: RouteLimit,
  options: OverdueSweepOptions,
): Promise<void> {
  if (unavailableSinceMs === null) return
  const { patienceMs, queuesOf } = options
  const error = outOfPatience(patienceMs, trouble)
  for (const queue of queuesOf(route)) {
    await failAll({ route: queue, account, unavailableSinceMs, patienceMs, error }, options)
  }
}

export async function failPastDeadline(options: SweepOptions): Promise<void> {
  await failAll({ route: null, error: DEADLINE_EXCEEDED }, options)
}

async function failAll(overdue: Overdue, { store, clock, afterSettlement }: SweepOptions): Promise<void> {
  const { error } = overdue
  for (let count = MAX_FAILED; count === MAX_FAILED; ) {
    const failed = await store.failOverdue(overdue, clock.nowMs(), MAX_FAILED)
    for (const { jobId: id, usage, hasCallback, ...job } of failed) {
      const result = { outcome: { status: 'failed', error }, usage, receipt: NO_RECEIPT } as const
      afterSettlement({ ...job, id, callbackJson: hasCallback ? '' : null }, result, 'settled', null)
    }
    count = failed.length
  }
}
