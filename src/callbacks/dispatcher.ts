/** Drives callbacks on this node: takes those that are due, sends them, and records what came of it. */
import type { Clock } from '../clock.ts'
import type { Poster, PostResult } from '../net/post.ts'
import { retryWrite } from '../queue/retry-write.ts'
import type {
  AttemptRecord,
  CallbackAttempt,
  CallbackNext,
  CallbackStore,
  DeferredCallback,
  DeliveryQueueName,
  DueCallback,
  TakenBefore,
} from '../store/callback-store.ts'
import { ByteBudget } from './byte-budget.ts'
import { attemptOf, callbackRequest, keepsUp, longestOwedMs, nextAttempt } from './callback-request.ts'
import { DeliveryQueue, type Sent } from './delivery-queue.ts'
import { Receivers } from './receivers.ts'

/** How often it looks for callbacks whose pause has ended. */
const LOOK_MS = 1000
/** Beyond an attempt's own deadline, before a taken callback that is not in hand is taken anew. */
const LEASE_SLACK_MS = 30_000
/** How long a callback may hold a slot while it waits for bytes: a part of the slack, so that its lease outlasts the attempt. */
const BYTES_WAIT_MS = 15_000
/** On stopping, how long callbacks under way may take; what is cut off is sent again later. */
const STOP_GRACE_MS = 5000

export interface CallbackDispatcherOptions {
  readonly store: CallbackStore
  readonly node: string
  readonly poster: Poster
  readonly clock: Clock
  readonly random: () => number
  readonly timeoutMs: number
  readonly pausesS: readonly number[]
  /** Callbacks under way at once. */
  readonly places: Readonly<Record<DeliveryQueueName, number>>
  readonly placesPerOrigin: number
  /** Bytes of bodies in memory at once; see `ByteBudget` for what counts. */
  readonly maxBodyBytes: number
  readonly events: CallbackDispatcherEvents
}

export interface CallbackDispatcherEvents {
  /** An attempt was made, or made no more; it is recorded. */
  attempted(due: DueCallback, attempt: CallbackAttempt, next: CallbackNext['kind']): void
  trouble(error: unknown): void
}

export class CallbackDispatcher {
  readonly #options: CallbackDispatcherOptions
  readonly #lanes: Readonly<Record<DeliveryQueueName, DeliveryQueue>>
  readonly #budget: ByteBudget
  /** The attempt under which each is this node's. */
  readonly #inHand = new Map<string, number>()
  #state: 'running' | 'stopping' | 'cut off' = 'running'
  #cancelLook: () => void = () => {}

  constructor(options: CallbackDispatcherOptions) {
    this.#options = options
    const { maxBodyBytes, clock } = options
    this.#budget = new ByteBudget({ maxBytes: maxBodyBytes, maxWaitMs: BYTES_WAIT_MS, clock })
    const destinations = new Receivers(options.placesPerOrigin)
    this.#lanes = { first: this.#lane('first', destinations), retry: this.#lane('retry', destinations) }
  }

  begin(): void {
    this.#look()
  }

  /** A job has ended that owes a callback. */
  wake(account: string, jobId: string): void {
    this.#lanes.first.wake(account, jobId)
  }

  /** Attempts under way. */
  get underWay(): Readonly<Record<DeliveryQueueName, number>> {
    return { first: this.#lanes.first.underWay, retry: this.#lanes.retry.underWay }
  }

  async stop(): Promise<void> {
    const { poster, clock, events } = this.#options
    this.#state = 'stopping'
    this.#cancelLook()
    this.#budget.close()
    const cancel = clock.after(STOP_GRACE_MS, () => {
      this.#state = 'cut off'
      void poster.close()
    })
    const lanes = Object.values(this.#lanes)
    // What could not be given back is this node's no longer once its lease has ended.
    await Promise.all(lanes.map((lane) => lane.stop().catch(events.trouble)))
    cancel()
    await poster.close()
  }

  #look(): void {
    for (const lane of Object.values(this.#lanes)) lane.look()
    this.#cancelLook = this.#options.clock.after(LOOK_MS, () => this.#look())
  }

  #lane(name: DeliveryQueueName, destinations: Receivers): DeliveryQueue {
    const { places, placesPerOrigin, clock, pausesS, events } = this.#options
    const longestMs = longestOwedMs(pausesS)
    return new DeliveryQueue({
      places: places[name],
      waitingEach: placesPerOrigin,
      destinations,
      clock,
      take: (limit) => this.#take(name, limit),
      takePostponed: (postponed) => this.#takePostponed(postponed),
      deliver: (due, sent) => this.#deliver(due, sent),
      postpone: (postponed) => this.#postpone(postponed),
      isOverdue: ({ owedSinceMs }) => clock.nowMs() - owedSinceMs > longestMs,
      end: (due) => this.#end(due),
      onTrouble: events.trouble,
    })
  }

  async #take(lane: DeliveryQueueName, limit: number): Promise<DueCallback[]> {
    const { store, node, clock } = this.#options
    const nowMs = clock.nowMs()
    const leaseUntilMs = this.#leaseUntil(nowMs)
    return this.#new(await store.takeCallbacks({ node, queue: lane, limit, nowMs, leaseUntilMs }))
  }

  async #takePostponed(postponed: readonly TakenBefore[]): Promise<DueCallback[]> {
    const { store, node, clock } = this.#options
    const leaseUntilMs = this.#leaseUntil(clock.nowMs())
    return this.#new(await store.takeDeferred({ node, deferred: postponed, leaseUntilMs }))
  }

  #leaseUntil(nowMs: number): number {
    return nowMs + this.#options.timeoutMs + LEASE_SLACK_MS
  }

  /** Those that are not in hand already. */
  #new(taken: readonly DueCallback[]): DueCallback[] {
    return taken.filter(({ jobId, attempt }) => {
      // The clock has jumped, or it has waited here for long: it goes on, under the attempt that the store knows now.
      const isNew = !this.#inHand.has(jobId)
      this.#inHand.set(jobId, attempt)
      return isNew
    })
  }

  async #postpone(postponed: readonly DeferredCallback[]): Promise<void> {
    const { store, node } = this.#options
    const current = postponed.map((one) => ({ ...one, attempt: this.#attemptOf(one.jobId, one.attempt) }))
    for (const { jobId } of postponed) this.#inHand.delete(jobId)
    await store.deferCallbacks(node, current)
  }

  async #deliver(due: DueCallback, sent: Sent): Promise<void> {
    const { clock, random, pausesS, events } = this.#options
    try {
      const made = await this.#attempt(due)
      if (made === 'later') return await this.#putBack(due)
      if (made === 'gone') return
      const { result, atMs } = made
      sent(this.#state === 'cut off' ? null : keepsUp(result))
      const nowMs = clock.nowMs()
      const next = this.#wasCutOff(result)
        ? ({ kind: 'due', atMs: nowMs, counts: false } as const)
        : nextAttempt(result, due.tries, pausesS, random(), nowMs)
      await this.#record(due, attemptOf(due.attempt, atMs, result), next)
    } catch (error) {
      // It is this node's until its lease ends, and is then taken anew.
      events.trouble(error)
    } finally {
      this.#inHand.delete(due.jobId)
    }
  }

  /** Makes an attempt: waits for the bytes of its body, loads that and sends it. */
  async #attempt(due: DueCallback): Promise<{ result: PostResult; atMs: number } | 'later' | 'gone'> {
    const { store, poster, clock, events } = this.#options
    const { jobId, bodyBytes } = due
    const reserved = this.#budget.reserve(due.account, bodyBytes)
    const free = reserved instanceof Promise ? await reserved : reserved
    if (!free) return 'later'
    try {
      const attempt = this.#attemptOf(jobId, due.attempt)
      const load = () => store.loadCallback({ jobId, attempt, bodyBytes })
      const body = await retryWrite(load, clock, events.trouble, () => this.#state === 'running')
      if (body === 'given up') return 'later'
      // Null, too, if its lease ended meanwhile and this node took it again: then it is still to be sent.
      if (!body) return this.#attemptOf(jobId, attempt) === attempt ? 'gone' : 'later'
      const atMs = clock.nowMs()
      return { result: await poster.post(callbackRequest(body, atMs)), atMs }
    } finally {
      free()
    }
  }

  /** Untried and due at once: what holds memory now is sent first. */
  async #putBack({ jobId, attempt }: DueCallback): Promise<void> {
    await this.#postpone([{ jobId, attempt, dueAtMs: this.#options.clock.nowMs() }])
  }

  /** By our own end, which says nothing of the receiver. */
  #wasCutOff(result: PostResult): boolean {
    return result.kind === 'failed' && this.#state === 'cut off'
  }

  /** Never rejects. */
  async #end(due: DueCallback): Promise<void> {
    const error = 'not tried again: the receiver fails, and more callbacks wait for it than can be tried'
    const attempt = {
      attempt: due.attempt,
      atMs: this.#options.clock.nowMs(),
      ms: 0,
      status: null,
      error,
      answer: null,
    }
    try {
      await this.#record(due, attempt, { kind: 'failed' })
    } catch (error) {
      this.#options.events.trouble(error)
    } finally {
      this.#inHand.delete(due.jobId)
    }
  }

  async #record(due: DueCallback, made: CallbackAttempt, next: CallbackNext): Promise<void> {
    const { store, clock, events } = this.#options
    const recordOf = (): AttemptRecord => {
      const attempt = { ...made, attempt: this.#attemptOf(due.jobId, made.attempt) }
      return { jobId: due.jobId, attempt, next, nowMs: clock.nowMs() }
    }
    const goOn = () => this.#state !== 'cut off'
    const recorded = await retryWrite(() => store.recordCallback(recordOf()), clock, events.trouble, goOn)
    if (recorded === true) events.attempted(due, made, next.kind)
  }

  #attemptOf(jobId: string, attempt: number): number {
    return this.#inHand.get(jobId) ?? attempt
  }
}
