/**
 * The callback dispatcher of a node runs two delivery queues: one for first attempts, and one for retries, so that many retries
 * do not delay a new callback.
 */
import { PollingLoop } from '../polling-loop.ts'
import type { CallbackStore, DeliveryQueueName } from '../store/callback-store.ts'
import type { Store } from '../store/store.ts'
import { CallbackSender, type CallbackSenderOptions } from './callback-sender.ts'
import { Deliveries } from './deliveries.ts'
import { DeliveryQueue } from './delivery-queue.ts'
import { Receivers } from './receiver-limit.ts'
import { maxOwedMs } from './retry-schedule.ts'

const POLL_MS = 1000
/** A lease outlasts an attempt by this time, which covers the wait for memory. */
const LEASE_SLACK_MS = 30_000
/** Shutdown waits this long for deliveries in progress, and then aborts them. */
const STOP_GRACE_MS = 5000

export interface CallbackDispatcherOptions extends CallbackSenderOptions {
  readonly store: CallbackStore & Pick<Store, 'metadataOf'>
  readonly node: string
  readonly timeoutMs: number
  readonly slots: Readonly<Record<DeliveryQueueName, number>>
  readonly slotsPerOrigin: number
}

export class CallbackDispatcher {
  readonly #options: CallbackDispatcherOptions
  readonly #deliveries = new Deliveries()
  readonly #sender: CallbackSender
  readonly #queues: Readonly<Record<DeliveryQueueName, DeliveryQueue>>
  readonly #polling: PollingLoop

  constructor(options: CallbackDispatcherOptions) {
    const { clock, slots, slotsPerOrigin, onError } = options
    this.#options = options
    this.#sender = new CallbackSender(options)
    const common = {
      ...options,
      deliveries: this.#deliveries,
      receivers: new Receivers(slotsPerOrigin, this.#deliveries.toReceiver),
      sender: this.#sender,
      leaseMs: options.timeoutMs + LEASE_SLACK_MS,
      maxOwedMs: maxOwedMs(options.pausesS),
    }
    const queue = (name: DeliveryQueueName) =>
      new DeliveryQueue({ ...common, name, limits: { slots: slots[name], slotsPerOrigin } })
    this.#queues = { first: queue('first'), retry: queue('retry') }
    this.#polling = new PollingLoop({ clock, pauseMs: POLL_MS, task: async () => this.#poll(), onError })
  }

  start(): void {
    this.#poll()
    this.#polling.start()
  }

  /** Call this when this node has settled a job that has a callback. */
  notify(account: string, jobId: string): void {
    this.#queues.first.notify(account, jobId)
  }

  get inFlight(): Readonly<Record<DeliveryQueueName, number>> {
    const inFlight = (name: DeliveryQueueName) => this.#deliveries.inFlight(name).occupied.total
    return { first: inFlight('first'), retry: inFlight('retry') }
  }

  /**
   * Resolves when nothing is in flight. Deliveries that were not sent, or were aborted, return to the store and are due at
   * once.
   */
  async stop(): Promise<void> {
    const { clock, poster } = this.#options
    this.#sender.stop()
    const cancel = clock.after(STOP_GRACE_MS, () => this.#sender.cutOff())
    const { first, retry } = this.#queues
    await Promise.all([this.#polling.stop(), first.stop(), retry.stop()])
    cancel()
    await poster.close()
  }

  /** Does not await the queues, so that a slow queue does not delay the next poll of the other one. */
  #poll(): void {
    for (const queue of Object.values(this.#queues)) queue.poll()
  }
}
