/**
 * Callbacks that found no place at their destination and were put aside in the store: remembered here by their ids, so that
 * they can be fetched as soon as there is room. What is forgotten comes back by itself, when its time in the store is over.
 */
import type { DeferredCallback, DueCallback, TakenBefore } from '../store/callback-store.ts'
import type { Receiver } from './receivers.ts'

/** Remembered in all; a destination may have as many as are left for others. */
const MOST_REMEMBERED = 100_000
/** When they come back by themselves, where they were forgotten here. */
const COMES_BACK_MS = 60_000
/** The same where the receiver fails, so that a long line for a dead one is not read again and again. */
const COMES_BACK_FAILING_MS = 600_000

/** What the store is to be told of one that finds no place now. */
export function postponed(due: DueCallback, destination: Receiver, nowMs: number): DeferredCallback {
  const inMs = destination.isFailing ? COMES_BACK_FAILING_MS : COMES_BACK_MS
  return { jobId: due.jobId, attempt: due.attempt, dueAtMs: nowMs + inMs }
}

export class DeferredDeliveries {
  /** By job: the attempts there were. The one postponed for longest comes first. */
  readonly #of = new Map<Receiver, Map<string, number>>()
  #total = 0

  get isEmpty(): boolean {
    return this.#total === 0
  }

  get destinations(): Iterable<Receiver> {
    return this.#of.keys()
  }

  /** Once the store knows that they are postponed: before that they could not be fetched. */
  add(callbacks: readonly DueCallback[], destination: Receiver): void {
    const ids = this.#of.get(destination) ?? new Map<string, number>()
    const before = ids.size
    for (const { jobId, attempt } of callbacks) {
      const total = this.#total + ids.size - before
      if (ids.size >= MOST_REMEMBERED - total) break
      ids.set(jobId, attempt - 1)
    }
    if (ids.size > 0) this.#of.set(destination, ids)
    this.#total += ids.size - before
  }

  /** Removes up to `count`; empty if none is remembered. */
  fetch(destination: Receiver, count: number): TakenBefore[] {
    const ids = this.#of.get(destination)
    if (!ids) return []
    const fetched: TakenBefore[] = []
    for (const [jobId, attempts] of ids) {
      if (fetched.length === count) break
      fetched.push({ jobId, attempts })
      ids.delete(jobId)
    }
    this.#total -= fetched.length
    if (ids.size === 0) this.#of.delete(destination)
    return fetched
  }
}
