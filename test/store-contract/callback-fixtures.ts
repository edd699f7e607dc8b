/** Shares fixtures among the callback tests. */
import type { Callback } from '../../src/job/job.ts'
import type {
  AttemptRecord,
  CallbackAttempt,
  CallbackNext,
  DueCallback,
  TakeCallbacks,
} from '../../src/store/callback-store.ts'
import type { Settlement, Store } from '../../src/store/store.ts'
import { now } from './fixtures.ts'
import { addEnded } from './steps.ts'

export const CALLBACK: Callback = {
  url: 'https://example.com/hook',
  headers: { 'x-caller': 'yes' },
  payloadJson: '{"big":12345678901234567890}',
}

export async function owed(store: Store, over: Partial<Settlement> = {}): Promise<string> {
  return (await addEnded(store, { callback: CALLBACK }, over)).id
}

export function take(store: Store, over: Partial<TakeCallbacks> = {}): Promise<DueCallback[]> {
  const { nowMs = now.ms } = over
  const usual = { node: 'node-a', queue: 'first', limit: 10, leaseUntilMs: nowMs + 1000 } as const
  return store.takeCallbacks({ ...usual, ...over, nowMs })
}

export function attemptMade(attempt: number, over: Partial<CallbackAttempt> = {}): CallbackAttempt {
  return { attempt, atMs: now.ms, ms: 12, status: 503, error: null, answer: 'busy', ...over }
}

export function record(jobId: string, attempt: number, next: CallbackNext, nowMs = now.ms): AttemptRecord {
  return { jobId, attempt: attemptMade(attempt), next, nowMs }
}

export const dueAt = (atMs: number): CallbackNext => ({ kind: 'due', atMs, counts: true })
export const DELIVERED: CallbackNext = { kind: 'delivered' }
export const FAILED: CallbackNext = { kind: 'failed' }
