/**
 * The deliveries that this node holds, from the claim of each until it is recorded or returned to the store, and the counts
 * that the concurrency limits look at. Every change of state passes through here, so the counts always agree with the states.
 *
 *     claimed ──→ waiting ──→ sending ──→ recording ──→ removed
 *        │           │           └── not sent after all: removed, and returned to the store
 *        │           └── deferred: removed, and returned to the store
 *        └── sent at once, deferred, or overdue and recorded as failed
 */
import type { DeliveryQueueName, DueCallback } from '../store/callback-store.ts'
import type { InFlight } from './concurrency-limits.ts'
import { Counts, type ReadonlyCounts } from './counts.ts'
import type { Receiver } from './receivers.ts'

/**
 * `claimed`: occupies nothing. `waiting`: waits for a slot. `sending`: occupies a slot of its delivery queue and capacity of
 * its receiver. `recording`: occupies the slot only, because the receiver has responded.
 */
export type DeliveryState = 'claimed' | 'waiting' | 'sending' | 'recording'

export interface Delivery {
  readonly callback: DueCallback
  readonly queue: DeliveryQueueName
  readonly receiver: Receiver
  /** The attempt under which this node holds the callback: the fence of everything that it writes. */
  readonly attempt: number
}

interface Entry extends Delivery {
  attempt: number
  state: DeliveryState
  /** Whether the receiver was not proven to respond when the attempt began. */
  isUnproven: boolean
}

export class Deliveries {
  readonly #byJob = new Map<string, Entry>()
  readonly #toReceiver = new Counts<Receiver>()
  readonly #toOrigin = new Counts<string>()
  readonly #queues = { first: this.#emptyQueue(), retry: this.#emptyQueue() }

  /** What the limits of a delivery queue look at. */
  inFlight(queue: DeliveryQueueName): InFlight {
    return this.#queues[queue]
  }

  /** Attempts in progress. */
  get toReceiver(): ReadonlyCounts<Receiver> {
    return this.#toReceiver
  }

  /** In the order in which they began to wait. */
  waiting(queue: DeliveryQueueName): ReadonlyMap<Receiver, ReadonlySet<Delivery>> {
    return this.#queues[queue].waitingByReceiver
  }

  /**
   * Whether this node holds the callback already, because its clock jumped or the delivery has waited for longer than its
   * lease. The delivery then continues under the attempt of the new claim.
   */
  renew({ jobId, attempt }: DueCallback): boolean {
    const entry = this.#byJob.get(jobId)
    if (entry) entry.attempt = attempt
    return entry !== undefined
  }

  add(callback: DueCallback, queue: DeliveryQueueName, receiver: Receiver): Delivery {
    const entry: Entry = {
      callback,
      queue,
      receiver,
      attempt: callback.attempt,
      state: 'claimed',
      isUnproven: false,
    }
    this.#byJob.set(callback.jobId, entry)
    return entry
  }

  move(delivery: Delivery, state: Exclude<DeliveryState, 'claimed'>): void {
    const entry = this.#byJob.get(delivery.callback.jobId)
    if (entry !== delivery) return
    this.#count(entry, -1)
    if (state === 'sending') entry.isUnproven = !entry.receiver.isProven
    entry.state = state
    this.#count(entry, 1)
  }

  /** A second call does nothing. */
  remove(delivery: Delivery): void {
    const entry = this.#byJob.get(delivery.callback.jobId)
    if (entry !== delivery) return
    this.#count(entry, -1)
    this.#byJob.delete(entry.callback.jobId)
  }

  #count(entry: Entry, change: 1 | -1): void {
    const { state, receiver } = entry
    const { account, origin } = receiver
    const { waitingByReceiver, waiting, occupied, unproven } = this.#queues[entry.queue]
    if (state === 'waiting') {
      waiting.add(account, change)
      const ofReceiver = waitingByReceiver.get(receiver) ?? new Set()
      if (change > 0) ofReceiver.add(entry)
      else ofReceiver.delete(entry)
      if (ofReceiver.size > 0) waitingByReceiver.set(receiver, ofReceiver)
      else waitingByReceiver.delete(receiver)
    }
    if (state === 'sending') {
      this.#toReceiver.add(receiver, change)
      this.#toOrigin.add(origin, change)
      if (entry.isUnproven) unproven.add(account, change)
    }
    if (state === 'sending' || state === 'recording') occupied.add(account, change)
  }

  #emptyQueue() {
    return {
      occupied: new Counts<string>(),
      unproven: new Counts<string>(),
      waiting: new Counts<string>(),
      waitingByReceiver: new Map<Receiver, Set<Entry>>(),
      toReceiver: this.#toReceiver,
      toOrigin: this.#toOrigin,
    }
  }
}
