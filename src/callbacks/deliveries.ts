/**
 * The deliveries that this node holds, from the claim of each until it is recorded or returned to the store, and the counts
 * that the concurrency limits look at. Every change of state passes through here, so the counts always agree with the states.
 *
 *     claimed ──→ waiting ──→ sending ──→ recording ──→ removed
 *        │           │           └── not sent after all: removed, and returned to the store
 *        │           └── deferred: removed, and returned to the store
 *        └── sent at once, deferred, or overdue and recorded as failed
 */

import { Counts, type ReadonlyCounts } from '../sharing/counts.ts'
import type { DeliveryQueueName, DueCallback } from '../store/callback-store.ts'
import { TransientMap } from '../transient-map.ts'
import type { InFlight } from './concurrency-limits.ts'
import type { Receiver } from './receiver-limit.ts'

/**
 * `claimed`: occupies nothing. `waiting`: waits for a slot. `sending`: occupies a slot of its delivery queue and capacity of
 * its receiver. `recording`: occupies only the slot, because the receiver has responded.
 */
export type DeliveryState = 'claimed' | 'waiting' | 'sending' | 'recording' | 'removed'

/** Only `Deliveries` changes a delivery. */
export interface Delivery {
  readonly callback: DueCallback
  readonly queue: DeliveryQueueName
  readonly receiver: Receiver
  /** The attempt under which this node holds the callback. Every write about the delivery names it. */
  attempt: number
  state: DeliveryState
  /** Whether, when the attempt began, the receiver had not yet been proven to respond. */
  isUnproven: boolean
}

export class Deliveries {
  readonly #byJob = new TransientMap<string, Delivery>()
  readonly #toReceiver = new Counts<Receiver>()
  readonly #toOrigin = new Counts<string>()
  readonly #queues = { first: this.#emptyQueue(), retry: this.#emptyQueue() }

  /** The counts for the limits of a delivery queue. */
  inFlight(queue: DeliveryQueueName): InFlight {
    return this.#queues[queue]
  }

  /** Attempts in progress, by receiver. */
  get toReceiver(): ReadonlyCounts<Receiver> {
    return this.#toReceiver
  }

  /** Waiting deliveries by receiver, in the order in which they started to wait. */
  waiting(queue: DeliveryQueueName): ReadonlyMap<Receiver, ReadonlySet<Delivery>> {
    return this.#queues[queue].waitingByReceiver
  }

  /**
   * Returns whether this node already holds the callback, because its clock has jumped or the delivery has waited longer than
   * its lease. If so, the delivery continues under the attempt of the new claim.
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

  /** A second call does nothing. */
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
