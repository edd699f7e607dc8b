/**
 * Remembers deferred deliveries, so that they can be taken again as soon as their receiver has capacity. A deferred delivery
 * that is not remembered becomes due again later.
 */
import type { DeferredCallback, TakenBefore } from '../store/callback-store.ts'
import type { Delivery } from './deliveries.ts'
import type { Receiver } from './receiver-limit.ts'

/** How many deliveries are remembered for all receivers. One receiver can use half of what the others leave. */
const MAX_REMEMBERED = 100_000
/** A deferred delivery is due again after this time, unless it is taken before. */
const DEFER_MS = 60_000
/**
 * The time for a failing receiver. It is longer, so that the many callbacks of a dead receiver are not read again and again.
 */
const DEFER_FAILING_MS = 600_000

/** What the store records when a delivery is deferred. */
export function deferred({ callback, attempt, receiver }: Delivery, nowMs: number): DeferredCallback {
  const inMs = receiver.isFailing ? DEFER_FAILING_MS : DEFER_MS
  return { jobId: callback.jobId, attempt, dueAtMs: nowMs + inMs }
}

export class DeferredDeliveries {
  /** By receiver and job: how many attempts the callback has had. The delivery that was deferred first comes first. */
  readonly #byReceiver = new Map<Receiver, Map<string, number>>()
  #total = 0

  get isEmpty(): boolean {
    return this.#total === 0
  }

  get receivers(): Iterable<Receiver> {
    return this.#byReceiver.keys()
  }

  /** Call this only after the store has recorded the deferral, because deliveries cannot be taken before. */
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

  /** Removes and returns up to `max` deliveries of the receiver. */
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
