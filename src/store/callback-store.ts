/** Callbacks that are owed, as a store keeps them: an outbox that the settling transaction writes. */
import type { Callback } from '../job/job.ts'
import type { JobView } from '../job/view.ts'
import type { Secrets } from './account-store.ts'

export interface CallbackStore {
  /**
   * Takes up to `limit` callbacks that are due, the longest due first, and counts an attempt of each. None of them is due
   * again before `leaseUntilMs`: a process that dies delivering delays its callbacks by no more than that.
   */
  takeCallbacks(limit: number, nowMs: number, leaseUntilMs: number): Promise<DueCallback[]>

  /**
   * Records what came of an attempt. False, and nothing is changed, if the callback was taken again since or its job has
   * gone.
   */
  recordCallback(jobId: string, attempt: number, next: CallbackNext, nowMs: number): Promise<boolean>
}

export interface DueCallback {
  /** 1 for the first attempt. */
  readonly attempt: number
  readonly callback: Callback
  /** The settled job. */
  readonly view: JobView
  readonly secrets: Secrets
}

export type CallbackNext =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'given up' }
  | { readonly kind: 'due'; readonly atMs: number }
