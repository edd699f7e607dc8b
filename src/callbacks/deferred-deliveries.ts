/**
 * Deliveries that found no capacity at their receiver and were returned to the store untried. Their identifiers are remembered
 * here, so that they can be claimed as soon as there is capacity. Those that are not remembered become due again by themselves.
 */
import type { DeferredCallback, TakenBefore } from '../store/callback-store.ts'
import type { Delivery } from './deliveries.ts'
import type { Receiver } from './receivers.ts'

/** In total. A receiver may use as many as remain for the others. */
const MAX_REMEMBERED = 100_000
/** When a deferred delivery is due again, if it is not claimed before. */
const DEFER_MS = 60_000
/** The same for a failing receiver, so that the long backlog of a dead one is not read over and over. */
const DEFER_FAILING_MS = 600_000

/** What the store records of a delivery that is deferred now. */
export function deferred({ callback, attempt, receiver }: Delivery, nowMs: number): DeferredCallback {
  const inMs = receiver.isFailing ? DEFER_FAILING_MS : DEFER_MS
  return { jobId: callback.jobId, attempt, dueAtMs: nowMs + inMs }
}

export class DeferredDeliveries {
  /** The attempts that each job's callback has had. The one deferred first comes first. */
  readonly #byReceiver = new Map<Receiver, Map<string, number>>()
  #total = 0

  get isEmpty(): boolean {
    return this.#total === 0
  }

  get receivers(): Iterable<Receiver> {
    return this.#byReceiver.keys()
  }

  /** Call this after the store has recorded that they are deferred, because they cannot be claimed before. */
  add(deliveries: readonly Delivery[]): void {
    for (const { callback, attempt, receiver } of deliveries) {
      const attempts = this.#byReceiver.get(receiver) ?? new Map<string, number>()
      const before = attempts.size
      if (before >= MAX_REMEMBERED - this.#total) continue
      attempts.set(callback.jobId, attempt - 1)
      this.#byReceiver.set(receiver, attempts)
      this.#total += attempts.size - before
    }
  }

  /** Removes and returns up to `max` for the receiver. */
  take(receiver: Receiver, max: number): TakenBefore[] {
    const attempts = this.#byReceiver.get(receiver)
    if (!attempts) return []
    const taken: TakenBefore[] = []
    for (const [jobId, count] of attempts) {
      if (taken.length === max) break
      taken.push({ jobId, attempts: count })
      attempts.delete(jobId)
    }
    this.#total -= taken.length
    if (attempts.size === 0) this.#byReceiver.delete(receiver)
    return taken
  }
}
