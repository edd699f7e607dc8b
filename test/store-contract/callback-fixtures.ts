/** Shared parts of the callback tests. */
import type { Callback, Outcome } from '../../src/job/job.ts'
import type {
  AttemptRecord,
  CallbackAttempt,
  CallbackNext,
  DueCallback,
  TakeCallbacks,
} from '../../src/store/callback-store.ts'
import type { Store } from '../../src/store/store.ts'
import { acceptance, newJob, now, settlement } from './fixtures.ts'

export const CALLBACK: Callback = {
  url: 'https://example.com/hook',
  headers: { 'x-caller': 'yes' },
  payloadJson: '{"big":12345678901234567890}',
}

/** A settled job whose callback is owed. */
export async function owed(store: Store, over: { outcome?: Outcome } = {}): Promise<string> {
  const job = newJob({ callback: CALLBACK })
  await store.accept(acceptance([job], { handedOff: true }))
  await store.settle(settlement({ jobId: job.id, attempt: 1 }, over))
  return job.id
}

export function take(store: Store, over: Partial<TakeCallbacks> = {}): Promise<DueCallback[]> {
  const { nowMs = now.ms } = over
  return store.takeCallbacks({
    node: 'node-a',
    queue: 'first',
    limit: 10,
    leaseUntilMs: nowMs + 1000,
    ...over,
    nowMs,
  })
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
