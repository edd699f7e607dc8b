/**
 * Keeps the deliveries that this node holds, with the counts that the concurrency limits need, and remembers deferred ones.
 * Only `Deliveries` changes the state of a delivery, so the counts always agree with the states.
 *
 *     claimed ──→ waiting ──→ sending ──→ recording ──→ removed
 *        │           │           └── not sent after all: removed, and returned to the store
 *        │           └── deferred: removed, and returned to the store
 *        └── sent at once, deferred, or overdue and recorded as failed
 */

import { Counts, type ReadonlyCounts } from '../sharing/counts.ts'
import type {
  DeferredCallback,
  DeliveryQueueName,
  DueCallback,
  TakenBefore,
} from '../store/callback-store.ts'
import { TransientMap } from '../transient-map.ts'
import type { InFlight } from './concurrency-limits.ts'
import type { Receiver } from './receiver-limit.ts'

/**
 * `claimed`: occupies nothing. `waiting`: waits for a slot or for its receiver. `sending`: occupies a slot of its delivery
 * queue and capacity of its receiver. `recording`: occupies only the slot, because the attempt has ended.
 */
export type DeliveryState = 'claimed' | 'waiting' | 'sending' | 'recording' | 'removed'

export interface Delivery {
  readonly callback: DueCallback
  readonly queue: DeliveryQueueName
  readonly receiver: Receiver
  /** This node holds the callback under this attempt. The store ignores writes that name an earlier attempt. */
  attempt: number
  state: DeliveryState
  /** Whether the receiver was not proven to respond when the attempt began. */
  isUnproven: boolean
}

export class Deliveries {
  readonly #byJob = new TransientMap<string, Delivery>()
  readonly #toReceiver = new Counts<Receiver>()
  readonly #toOrigin = new Counts<string>()
  readonly #queues = { first: this.#emptyQueue(), retry: this.#emptyQueue() }

  inFlight(queue: DeliveryQueueName): InFlight {
    return this.#queues[queue]
  }

  get toReceiver(): ReadonlyCounts<Receiver> {
    return this.#toReceiver
  }

  /** Returns waiting deliveries by receiver. For each receiver, the delivery that has waited longest comes first. */
  waiting(queue: DeliveryQueueName): ReadonlyMap<Receiver, ReadonlySet<Delivery>> {
    return this.#queues[queue].waitingByReceiver
  }

  /**
   * Returns whether this node already holds the callback. The store hands out such a callback again if this node's clock has
   * jumped, or if the delivery has waited longer than its lease. The delivery then continues under the attempt of the new
   * claim.
   */
  renew({ jobId, attempt }: DueCallback): boolean {
    const delivery = this.#byJob.get(jobId)
    if (delivery) delivery.attempt = attempt
    return delivery !== undefined
  }

  add(callback: DueCallback, queue: DeliveryQueueName, receiver: Receiver): Delivery {
    const delivery: Delivery = {
      callback,
      queue,
      receiver,
      attempt: callback.attempt,
      state: 'claimed',
      isUnproven: false,
    }
    this.#byJob.set(callback.jobId, delivery)
    return delivery
  }

  move(delivery: Delivery, state: 'waiting' | 'sending' | 'recording'): void {
    this.#change(delivery, state)
  }

  remove(delivery: Delivery): void {
    if (delivery.state === 'removed') return
    this.#change(delivery, 'removed')
    this.#byJob.delete(delivery.callback.jobId)
  }

  #change(delivery: Delivery, state: DeliveryState): void {
    const before = delivery.state
    if (before === 'waiting') this.#countWaiting(delivery, -1)
    if (before === 'sending') this.#countSending(delivery, -1)
    delivery.state = state
    if (state === 'waiting') this.#countWaiting(delivery, 1)
    if (state === 'sending') {
      delivery.isUnproven = !delivery.receiver.isProven
      this.#countSending(delivery, 1)
    }
    const slots = slotsOf(state) - slotsOf(before)
    if (slots !== 0) this.#queues[delivery.queue].occupied.add(delivery.receiver.account, slots)
  }

  #countWaiting(delivery: Delivery, change: 1 | -1): void {
    const { receiver } = delivery
    const { waiting, waitingByReceiver } = this.#queues[delivery.queue]
    const ofReceiver = waitingByReceiver.get(receiver) ?? new Set()
    if (change > 0) ofReceiver.add(delivery)
    else ofReceiver.delete(delivery)
    if (ofReceiver.size > 0) waitingByReceiver.set(receiver, ofReceiver)
    else waitingByReceiver.delete(receiver)
    waiting.add(receiver.account, change)
  }

  #countSending({ queue, receiver, isUnproven }: Delivery, change: 1 | -1): void {
    this.#toReceiver.add(receiver, change)
    this.#toOrigin.add(receiver.origin, change)
    if (isUnproven) this.#queues[queue].unproven.add(receiver.account, change)
  }

  #emptyQueue() {
    return {
      occupied: new Counts<string>(),
      unproven: new Counts<string>(),
      waiting: new Counts<string>(),
      waitingByReceiver: new Map<Receiver, Set<Delivery>>(),
      toReceiver: this.#toReceiver,
      toOrigin: this.#toOrigin,
    }
  }
}

function slotsOf(state: DeliveryState): 0 | 1 {
  return state === 'sending' || state === 'recording' ? 1 : 0
}

/**
 * At most this many deliveries are remembered for all receivers. One receiver can use half of the space that the others leave.
 */
const MAX_REMEMBERED = 100_000
/** A deferred delivery is due again after this time, unless it is taken before. */
const DEFER_MS = 60_000
/** For a failing receiver the time is longer, so that the many callbacks of a dead receiver are seldom read. */
const DEFER_FAILING_MS = 600_000

export function deferred({ callback, attempt, receiver }: Delivery, nowMs: number): DeferredCallback {
  const inMs = receiver.isFailing ? DEFER_FAILING_MS : DEFER_MS
  return { jobId: callback.jobId, attempt, dueAtMs: nowMs + inMs }
}

export class DeferredDeliveries {
  /** The inner map counts the attempts of each job's callback. The delivery that was deferred first comes first. */
  readonly #byReceiver = new Map<Receiver, Map<string, number>>()
  #total = 0

  get isEmpty(): boolean {
    return this.#total === 0
  }

  get receivers(): Iterable<Receiver> {
    return this.#byReceiver.keys()
  }

  /**
   * Call this only after the store has recorded the deferral, because the store refuses to hand out a delivery before that. If
   * the space is used up, a delivery is not remembered, and becomes due later.
   */
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
