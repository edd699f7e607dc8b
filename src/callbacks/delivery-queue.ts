/**
 * One of a node's two delivery queues: takes due callbacks from the store while slots are free, and sends each when its
 * receiver has capacity. Until then, a callback waits on this node or is deferred in the store. A callback that is overdue fails
 * if its receiver keeps failing. `concurrency-limits.ts` has the limits.
 */
import type { Clock } from '../clock.ts'
import type { CallbackStore, DeliveryQueueName, DueCallback, TakenBefore } from '../store/callback-store.ts'
import type { CallbackSender } from './callback-sender.ts'
import {
  deferredToClaim,
  freeSharedSlots,
  freeSlots,
  type InFlight,
  type Limits,
  maySend,
  mayUseReserve,
  mayWait,
  onlyReserveLeft,
  sharedSlots,
} from './concurrency-limits.ts'
import { DeferredDeliveries, type Deliveries, type Delivery, deferred } from './deliveries.ts'
import type { Receiver, Receivers } from './receiver-limit.ts'

const MAX_CLAIMED = 128
/**
 * When a delivery has ended, the queue takes more only if at least this many can be sent, because each statement is a
 * transaction.
 */
const MIN_CLAIMED = 32
/** One poll may take at most this many callbacks only to defer them, because each deferral is a write. */
const MAX_DEFERRED = 2048
/** The queue checks this often whether deliveries that wait or were deferred can be sent. */
const RECHECK_MS = 100

export interface DeliveryQueueOptions {
  readonly name: DeliveryQueueName
  readonly node: string
  readonly store: Pick<CallbackStore, 'takeCallbacks' | 'takeDeferred' | 'deferCallbacks'>
  readonly limits: Limits
  readonly deliveries: Deliveries
  readonly receivers: Receivers
  readonly sender: CallbackSender
  readonly clock: Clock
  readonly leaseMs: number
  /** A callback that has been pending for longer is overdue. The pauses of the schedule take at most this long together. */
  readonly maxOwedMs: number
  readonly onError: (error: unknown) => void
}

export class DeliveryQueue {
  readonly #options: DeliveryQueueOptions
  readonly #inFlight: InFlight
  readonly #deferred = new DeferredDeliveries()
  readonly #claimingFor = new Set<Receiver>()
  /** This is true if the store may have callbacks that are due. Otherwise, no statement is needed. */
  #mayBeDue = true
  #isClaiming = false
  #overtaking: TakenBefore[] = []
  #isOvertaking = false
  #endedSincePoll = 0
  #cancelRecheck: (() => void) | null = null
  #isStopped = false
  #operations = 0
  readonly #ended = Promise.withResolvers<void>()

  constructor(options: DeliveryQueueOptions) {
    this.#options = options
    this.#inFlight = options.deliveries.inFlight(options.name)
  }

  /** If only the reserve is left and the account may use it, the callback overtakes earlier ones. */
  notify(account: string, jobId: string): void {
    const { limits } = this.#options
    this.#mayBeDue = true
    this.#claimIfFree(1)
    const mayOvertake =
      freeSharedSlots(limits, this.#inFlight) <= 0 && mayUseReserve(limits, this.#inFlight, account)
    if (!mayOvertake) return
    this.#overtaking.push({ jobId, attempts: 0 })
    void this.#run(() => this.#claimOvertaking())
  }

  /**
   * Call this when callbacks may have become due. If accounts occupy all slots that they may have, and few slots became free
   * since the previous poll, the queue takes and defers more of their callbacks, to find those of other accounts behind them.
   */
  poll(): void {
    const { limits } = this.#options
    this.#mayBeDue = true
    this.#claimIfFree(1)
    const isStuck = freeSharedSlots(limits, this.#inFlight) <= 0 && this.#endedSincePoll < limits.slots
    this.#endedSincePoll = 0
    if (!isStuck) return
    let left = MAX_DEFERRED
    void this.#run(() =>
      this.#claimWhile(() => {
        const count = Math.min(left, MAX_CLAIMED)
        left -= count
        return freeSlots(limits, this.#inFlight) > 0 ? count : 0
      }),
    )
  }

  /** Takes no more callbacks, and returns waiting deliveries to the store. Resolves once no delivery is in flight. */
  async stop(): Promise<void> {
    const { deliveries, name } = this.#options
    this.#isStopped = true
    this.#cancelRecheck?.()
    const waiting = [...deliveries.waiting(name).values()].flatMap((ofReceiver) => [...ofReceiver])
    void this.#run(() => this.#release(waiting))
    await this.#ended.promise
  }

  /** Runs an operation that `stop` waits for. Never rejects. */
  async #run(operation: () => Promise<void>): Promise<void> {
    this.#operations += 1
    try {
      await operation()
    } catch (error) {
      // No more can be done here. The callbacks that this node holds become due again when their lease ends, and the next poll
      // runs within a second.
      this.#options.onError(error)
    }
    this.#endOperation()
  }

  #endOperation(): void {
    this.#operations -= 1
    if (this.#operations === 0 && this.#isStopped) this.#ended.resolve()
  }

  // ---- Taking due deliveries ----

  #claimIfFree(min: number): void {
    if (this.#isClaiming || !this.#mayBeDue) return
    const free = () => freeSharedSlots(this.#options.limits, this.#inFlight)
    if (free() >= min) void this.#run(() => this.#claimWhile(() => Math.min(free(), MAX_CLAIMED)))
  }

  /** `nextCount` returns how many callbacks to take next; 0 or less ends the loop. */
  async #claimWhile(nextCount: () => number): Promise<void> {
    if (this.#isClaiming || this.#isStopped) return
    const { store, node, name, clock } = this.#options
    this.#isClaiming = true
    try {
      for (let limit = nextCount(); this.#mayBeDue && limit > 0 && !this.#isStopped; limit = nextCount()) {
        this.#mayBeDue = false
        const nowMs = clock.nowMs()
        const claim = { node, queue: name, limit, nowMs, leaseUntilMs: this.#leaseUntilMs() }
        const claimed = await store.takeCallbacks(claim)
        if (claimed.length === limit) this.#mayBeDue = true
        await this.#dispatch(claimed)
      }
    } finally {
      this.#isClaiming = false
    }
  }

  /** Takes the callbacks that should overtake. Those that arrive during a statement share the next one. */
  async #claimOvertaking(): Promise<void> {
    if (this.#isOvertaking) return
    this.#isOvertaking = true
    try {
      while (this.#overtaking.length > 0 && !this.#isStopped) {
        await this.#claimDeferred(this.#overtaking.splice(0, MAX_CLAIMED))
      }
    } finally {
      this.#isOvertaking = false
    }
  }

  #claimDeferredFor(receiver: Receiver): void {
    const { limits, deliveries, name } = this.#options
    if (this.#deferred.isEmpty || this.#isStopped || this.#claimingFor.has(receiver)) return
    if (deliveries.waiting(name).has(receiver) || !maySend(limits, this.#inFlight, receiver)) return
    const taken = this.#deferred.take(receiver, deferredToClaim(limits, this.#inFlight, receiver))
    if (taken.length === 0) return
    this.#claimingFor.add(receiver)
    void this.#run(() => this.#claimDeferred(taken).finally(() => this.#claimingFor.delete(receiver)))
  }

  async #claimDeferred(deferred: readonly TakenBefore[]): Promise<void> {
    const { store, node } = this.#options
    await this.#dispatch(await store.takeDeferred({ node, deferred, leaseUntilMs: this.#leaseUntilMs() }))
  }

  #leaseUntilMs(): number {
    return this.#options.clock.nowMs() + this.#options.leaseMs
  }

  // ---- Sending, waiting, deferring ----

  async #dispatch(claimed: readonly DueCallback[]): Promise<void> {
    const { name, limits, deliveries, receivers, clock, maxOwedMs } = this.#options
    const toDefer: Delivery[] = []
    const overdue: Delivery[] = []
    const owedBeforeMs = clock.nowMs() - maxOwedMs
    for (const callback of claimed) {
      if (deliveries.renew(callback)) continue
      const receiver = receivers.of(callback.account, callback.url)
      const delivery = deliveries.add(callback, name, receiver)
      if (this.#isStopped) toDefer.push(delivery)
      else if (maySend(limits, this.#inFlight, receiver)) this.#send(delivery)
      else if (mayWait(limits, this.#inFlight, receiver)) deliveries.move(delivery, 'waiting')
      else if (receiver.isFailing && callback.owedSinceMs < owedBeforeMs) overdue.push(delivery)
      else toDefer.push(delivery)
    }
    if (this.#isStopped) return this.#release(toDefer)
    this.#recheckSoon()
    await Promise.all([this.#defer(toDefer), ...overdue.map((delivery) => this.#recordOverdue(delivery))])
  }

  #send(delivery: Delivery): void {
    this.#options.deliveries.move(delivery, 'sending')
    void this.#deliver(delivery)
  }

  /** Never rejects. */
  async #deliver(delivery: Delivery): Promise<void> {
    const { deliveries, sender, limits } = this.#options
    const { receiver } = delivery
    this.#operations += 1
    try {
      const sent = await sender.send(delivery)
      if (sent.kind === 'not sent') await this.#release([delivery])
      if (sent.kind === 'sent') {
        // The attempt has ended, so the receiver can get the next delivery. The slot stays occupied until the attempt is
        // recorded.
        deliveries.move(delivery, 'recording')
        receiver.learn(sent.health)
        this.#sendWaiting()
        await sender.record(delivery, sent)
      }
    } catch (error) {
      this.#options.onError(error)
    }
    // The receiver got capacity when the attempt ended. Waiting deliveries need the slot only if slots are short.
    const freesMore = delivery.state !== 'recording' || onlyReserveLeft(limits, this.#inFlight)
    deliveries.remove(delivery)
    this.#endedSincePoll += 1
    if (freesMore) this.#sendWaiting()
    this.#claimDeferredFor(receiver)
    this.#claimIfFree(Math.min(MIN_CLAIMED, sharedSlots(limits)))
    this.#endOperation()
  }

  async #recordOverdue(delivery: Delivery): Promise<void> {
    const { deliveries, sender } = this.#options
    try {
      await sender.recordOverdue(delivery)
    } finally {
      deliveries.remove(delivery)
    }
  }

  #sendWaiting(): void {
    const { deliveries, name, limits } = this.#options
    for (const [receiver, waiting] of deliveries.waiting(name)) {
      for (const delivery of waiting) {
        if (!maySend(limits, this.#inFlight, receiver)) break
        this.#send(delivery)
      }
      // A failing receiver may take long to recover, and its deliveries must not occupy this node's waiting room until then.
      if (receiver.isFailing && waiting.size > 0) void this.#run(() => this.#defer([...waiting]))
    }
  }

  /** Removes deliveries before the write, because this node may take their callbacks again right after it. */
  async #defer(given: readonly Delivery[]): Promise<void> {
    if (given.length === 0) return
    const { store, node, deliveries, clock } = this.#options
    const nowMs = clock.nowMs()
    for (const delivery of given) deliveries.remove(delivery)
    await store.deferCallbacks(
      node,
      given.map((delivery) => deferred(delivery, nowMs)),
    )
    this.#deferred.add(given)
    this.#recheckSoon()
  }

  /** Returns deliveries to the store without an attempt. Their callbacks are due at once. */
  async #release(given: readonly Delivery[]): Promise<void> {
    if (given.length === 0) return
    const { store, node, deliveries, clock } = this.#options
    const dueAtMs = clock.nowMs()
    for (const delivery of given) deliveries.remove(delivery)
    await store.deferCallbacks(
      node,
      given.map(({ callback, attempt }) => ({ jobId: callback.jobId, attempt, dueAtMs })),
    )
  }

  /** Checks again later, because no event shows that the other queue or another receiver has freed capacity. */
  #recheckSoon(): void {
    const { clock, deliveries, name } = this.#options
    const isNeeded = deliveries.waiting(name).size > 0 || !this.#deferred.isEmpty
    if (this.#cancelRecheck || this.#isStopped || !isNeeded) return
    this.#cancelRecheck = clock.after(RECHECK_MS, () => {
      this.#cancelRecheck = null
      this.#sendWaiting()
      for (const receiver of [...this.#deferred.receivers]) this.#claimDeferredFor(receiver)
      this.#recheckSoon()
    })
  }
}
