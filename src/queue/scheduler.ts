/**
 * Decides what this node runs next, from its free slots and bytes, the limits of routes and accounts, and what may be queued.
 * The scheduler has no effects: the worker makes the claims that `next` returns, and reports what they found.
 *
 * - Most claims are for one route, in fair order (a walk). A walk takes at most as many jobs as the route's model server can
 *   start soon (`Routes.room`).
 * - A route has a queue for each priority. Higher priorities are claimed first, but each lower one with jobs gets a twentieth.
 *   Jobs of high priority are sent even to a busy model server, where they wait ahead of others.
 * - Walks skip accounts that cannot start a job now, because their calls fail or they hold their share of the memory. Skipped
 *   jobs are claimed by account (from a lane) once the account can start jobs again.
 * - An account may hold all slots except a reserve for accounts that hold none. If a model server is busy, an account that
 *   holds nothing there (a newcomer) may still send it one job.
 * - Suspects run in groups (`suspect-groups.ts`).
 */
import type { Job } from '../job/job.ts'
import { LowerTurns, PRIORITIES, type Priority, queueName, readQueueName } from '../job/priority.ts'
import { type ByteShare, bytesOfJob, jobBytes } from '../sharing/byte-budget.ts'
import { Counts } from '../sharing/counts.ts'
import { type FairSlotsOptions, freeSharedSlots, mayAcquire, reserveOf } from '../sharing/fair-slots.ts'
import { type Claimed, type ClaimedLargeJob, type ClaimFrom, INLINE_TEXT_BYTES } from '../store/store.ts'
import type { Routes } from '../upstreams/routes.ts'
import {
  type Allowance,
  limitedTo,
  type PlannedClaim,
  RouteQueue,
  RouteState,
  walkOf,
} from './route-queue.ts'
import { type SuspectGroup, SuspectGroups } from './suspect-groups.ts'

/** A claim takes at most this many jobs, so that its transaction stays short. */
const MAX_CLAIM = 256
/** For a model server without room, a node may hold this many jobs of newcomers and urgent jobs. */
const MAX_NEWCOMERS = 8
/** The largest job whose texts come with the claim takes this much memory. */
const MAX_INLINE_BYTES = jobBytes(INLINE_TEXT_BYTES)
/** Until a claim returns, the accounts of its jobs are unknown. This name, which no account has, stands for them. */
const CLAIM_IN_PROGRESS = ''

export interface Place {
  readonly account: string
  readonly queue: RouteQueue
  readonly allowances: readonly (Allowance | null | undefined)[]
  readonly isSuspect: boolean
  /** A large job has 0 until it has reserved its bytes, before its texts are loaded. */
  bytes: number
  /** The job waits with this priority for a slot of the upstream. */
  readonly priority: Priority
  isArriving: boolean
  isNewcomer: boolean
}

/** The queued jobs of this account wait although jobs of other accounts could start. */
export interface HeldBack {
  readonly account: string
  readonly reason: 'slots' | 'memory'
}

export class Scheduler {
  readonly suspects = new SuspectGroups()
  readonly #slots: FairSlotsOptions
  readonly #maxAttempts: number
  readonly #bytes: ByteShare
  readonly #routes: Routes
  /** Counts slots by account, including those that a claim in progress may fill. */
  readonly #held = new Counts<string>()
  readonly #states = new Map<string, RouteState>()
  /** Queues of equal priority are in the order in which they are claimed next. */
  readonly #queues = new Map<string, RouteQueue>()
  /** `#turns` is null until a job has a priority other than normal. */
  #turns: LowerTurns | null = null

  /**
   * @param maxAttempts a job with at least this crash count fails if it was the only one running in the last crash
   * (`jobs.max_attempts`)
   */
  constructor(slots: number, bytes: ByteShare, routes: Routes, maxAttempts: number) {
    this.#maxAttempts = maxAttempts
    this.#slots = { limit: slots, reserve: reserveOf(slots) }
    this.#bytes = bytes
    this.#routes = routes
  }

  /** Counts the slots in use, including those that a claim in progress may fill. */
  get held(): number {
    return this.#held.total
  }

  get queues(): Iterable<RouteQueue> {
    return this.#queues.values()
  }

  queuesOf(route: string): readonly string[] {
    return this.#queueOf(route).of.queues.map(({ name }) => name)
  }

  /**
   * Takes a place for a job that is about to be accepted; null if the job must be queued.
   * @param awaited whether a caller waits for the job. Unless the route has rate limits or jobs in other queues, such a job
   *   needs no room at its model server, because it can wait in memory
   */
  tryTake(job: Job, awaited: boolean): Place | null {
    const { account } = job
    const queue = this.#queueOf(this.#routes.routeOf(job), job.priority)
    if (queue.walk.mayBeQueued || queue.lanes.has(account)) return null
    if (!mayAcquire(this.#slots, this.#held, account)) return null
    if (queue.of.allowed(account) <= 0) return null
    const others = queue.of.queues.length > 1 && queue.of.queues.some(({ walk }) => walk.mayBeQueued)
    if ((!awaited || others || queue.of.isRated) && this.#roomOf(queue) <= 0) return null
    if (others && (queue.isBehind || this.#isLowerDue(queue))) return null
    const bytes = bytesOfJob(job)
    if (this.#bytes.tryReserve(account, bytes) !== 'granted') return null
    if (this.#turns !== null) this.#started(queue, 1, this.#turns)
    return this.#place(account, queue, bytes, null)
  }

  /** @param account the account whose jobs may have been queued; null if it is not known */
  queued(route: string, account: string | null): void {
    this.#queueOf(route).added(account)
  }

  queuedJob(job: Job): void {
    this.#queueOf(this.#routes.routeOf(job), job.priority).added(job.account)
  }

  /** Call this when the limits of routes or accounts have changed. */
  limitsChanged(): void {
    const { limited, limitedAccounts } = this.#routes
    for (const route of limitedAccounts.keys()) this.#queueOf(route)
    for (const [route, state] of this.#states) {
      const limit = limited.get(route)
      state.limited = limit === undefined ? null : limitedTo(state.limited, limit)
      const accounts = limitedAccounts.get(route)
      for (const account of state.limitedAccounts.keys()) {
        if (!accounts?.has(account)) state.limitedAccounts.delete(account)
      }
      for (const [account, limit] of accounts ?? []) {
        const before = state.limitedAccounts.get(account)
        if (before === undefined) for (const queue of state.queues) queue.passedOver(account)
        state.limitedAccounts.set(account, limitedTo(before, limit))
      }
    }
  }

  /** Plans the next claim; null if nothing can be claimed now. */
  next(): PlannedClaim | null {
    const group = this.suspects.next()
    const queues: [string, RouteQueue][] = []
    for (const queue of this.#queues)
      if (queue[1].walk.mayBeQueued || queue[1].lanes.size > 0) queues.push(queue)
    if (group === null && queues.length === 0) return null
    const shared = freeSharedSlots(this.#slots, this.#held)
    const fitting = this.#fitting()
    if (this.#slots.limit - this.#held.total <= 0 || fitting <= 0) return null
    if (group !== null && shared > 0) return this.#claimOfGroup(group, Math.min(shared, fitting))
    for (const [name, queue, most] of this.#turns === null ? queues : byPriority(queues, this.#turns)) {
      const claim = this.#nextOf(queue, shared, Math.min(fitting, most ?? fitting), most !== undefined)
      if (claim === null) continue
      this.#queues.delete(name)
      this.#queues.set(name, queue)
      return claim
    }
    return null
  }

  begin({ limit }: PlannedClaim): void {
    this.#held.add(CLAIM_IN_PROGRESS, limit)
  }

  failed({ limit }: PlannedClaim): void {
    this.#held.add(CLAIM_IN_PROGRESS, -limit)
  }

  claimed(claim: PlannedClaim, { jobs, mayHaveMore }: Claimed): Place[] {
    this.#held.add(CLAIM_IN_PROGRESS, -claim.limit)
    const { queue, from, additions } = claim
    if (from.of === 'suspects') this.suspects.claimed(from.crashCount, claim.limit, jobs.length)
    else if (queue !== null) {
      if (this.#turns !== null) this.#started(queue, jobs.length, this.#turns)
      if (additions === queue.additions) queue.learn(claim, jobs.length, mayHaveMore)
    }
    return jobs.map((job) => {
      const of = queue ?? this.#queueOf(this.#routes.routeOf(job), job.priority)
      const bytes = isLarge(job) ? 0 : bytesOfJob(job)
      this.#bytes.hold(job.account, bytes)
      return this.#place(job.account, of, bytes, claim)
    })
  }

  /** Records that the job is about to make its first call. From then on, the upstream counts the job. */
  arrived(place: Place): void {
    if (place.isArriving) place.queue.of.arriving -= 1
    place.isArriving = false
  }

  /** Records that the upstream has given the job a slot. */
  calls(place: Place): void {
    if (place.isNewcomer) place.queue.of.newcomers -= 1
    place.isNewcomer = false
  }

  /** @param isSettled whether the job has its outcome; false if it was released */
  free(place: Place, isSettled: boolean): void {
    const { account, queue, bytes, allowances, isSuspect } = place
    this.arrived(place)
    this.calls(place)
    this.#held.add(account, -1)
    queue.of.held.add(account, -1)
    for (const allowance of allowances) if (allowance) allowance.running -= 1
    if (bytes > 0) this.#bytes.release(account, bytes)
    for (const one of queue.of.queues) one.hasNewcomers ||= queue.of.held.of(account) === 0
    // While only the reserve was left, an account with a slot for any route did not count as a newcomer on other routes.
    const isOnlyReserveLeft = this.#held.total >= this.#slots.limit - this.#slots.reserve
    if (isOnlyReserveLeft && this.#held.of(account) === 0)
      for (const one of this.#queues.values()) one.hasNewcomers = true
    if (isSuspect) this.suspects.ended(isSettled)
  }

  /**
   * Returns the accounts whose queued jobs must wait although jobs of other accounts could start. `memory`: they wait for
   * memory or hold their share of it. `slots`: only reserved slots are free, and they hold at least an equal share of the slots
   * in use.
   */
  heldBack(): readonly HeldBack[] {
    const withoutBytes = this.#accountsWithoutBytes()
    const waiting = withoutBytes.map((account) => ({ account, reason: 'memory' }) as const)
    const mayBeQueued = [...this.#queues.values()].some(({ walk }) => walk.mayBeQueued)
    if (!mayBeQueued || freeSharedSlots(this.#slots, this.#held) > 0 || this.#slots.reserve === 0)
      return waiting
    const others = new Set(this.#held.keys()).difference(new Set([...withoutBytes, CLAIM_IN_PROGRESS]))
    const held = [...others].reduce((sum, account) => sum + this.#held.of(account), 0)
    const most = [...others].filter((account) => this.#held.of(account) * others.size >= held)
    return [...waiting, ...most.map((account) => ({ account, reason: 'slots' }) as const)]
  }

  #claimOfGroup(group: SuspectGroup, most: number): PlannedClaim {
    const limit = Math.min(group.limit, most)
    const limited = [...this.#routes.limited.keys()]
    const states = limited.map((route) => this.#queueOf(route).of).filter((state) => state.allowed(null) <= 0)
    const exceptRoutes = states.flatMap(({ queues }) => queues.map(({ name }) => name))
    const from: ClaimFrom = {
      of: 'suspects',
      crashCount: group.crashCount,
      maxCrashCount: this.#maxAttempts,
      exceptRoutes,
    }
    return { limit, from, queue: null, isOfNewcomer: false, additions: 0 }
  }

  /** @param isDue whether it is the queue's turn to go before queues of higher priorities */
  #nextOf(queue: RouteQueue, shared: number, fitting: number, isDue: boolean): PlannedClaim | null {
    const state = queue.of
    const allowed = state.allowed(null)
    if (allowed <= 0) return null
    const room = this.#roomOf(queue)
    const limit = Math.min(shared, fitting, allowed, room, MAX_CLAIM)
    if (limit <= 0) {
      const most = Math.min(shared, fitting, allowed, MAX_NEWCOMERS - state.newcomers)
      if (queue.priority === 'high' && most > 0 && !this.#isLowerDue(queue))
        return urgent(this.#nextWalk(queue, most))
      const isBehind = state.queues.length > 1 && queue.isBehind
      return isBehind ? null : this.#nextNewcomer(queue, shared, room)
    }
    // A walk skips accounts whose calls fail. Jobs of other accounts test better whether a limited route works again.
    const isLaneFirst = state.limited === null && queue.isLaneNext
    queue.isLaneNext = !isLaneFirst
    const lane = isLaneFirst ? this.#nextLane(queue, limit) : null
    const claim = lane ?? this.#nextWalk(queue, limit) ?? this.#nextLane(queue, limit)
    return isDue ? urgent(claim) : claim
  }

  #nextWalk(queue: RouteQueue, limit: number): PlannedClaim | null {
    const { walk } = queue
    const { limited, limitedAccounts } = queue.of
    if (!walk.mayBeQueued) return null
    const failedJobs = walk.anyJob ? [] : (limited?.limit.failedJobs ?? [])
    const except = [...limitedAccounts.keys(), ...this.#accountsWithoutBytes()]
    // A known lane stays, because it records what claims from it have shown.
    for (const account of except) if (!queue.lanes.has(account)) queue.passedOver(account)
    return walkOf(queue, limit, except, failedJobs, failedJobs.length > 0)
  }

  /** A newcomer may start a job although the model server is busy or only the reserve of slots is free. */
  #nextNewcomer(queue: RouteQueue, shared: number, room: number): PlannedClaim | null {
    if (!queue.hasNewcomers || !queue.walk.mayBeQueued || queue.of.newcomers >= MAX_NEWCOMERS) return null
    const { held, limitedAccounts, limited } = queue.of
    const holders = shared > 0 ? held : this.#held
    const except = new Set([...limitedAccounts.keys(), ...this.#accountsWithoutBytes()])
    for (const account of holders.keys()) except.add(account)
    if (room <= 0) for (const account of held.keys()) except.add(account)
    except.delete(CLAIM_IN_PROGRESS)
    const failedJobs = limited?.limit.failedJobs ?? []
    return { ...walkOf(queue, 1, [...except], failedJobs, true), isOfNewcomer: true }
  }

  #nextLane(queue: RouteQueue, limit: number): PlannedClaim | null {
    const { name: route, lanes, additions } = queue
    for (const [account, lane] of lanes) {
      if (!this.#hasBytes(account)) continue
      const allowed = Math.min(limit, queue.of.allowed(account))
      if (allowed <= 0) continue
      lanes.delete(account)
      lanes.set(account, lane)
      const failedJobs = queue.of.limitedAccounts.get(account)?.limit.failedJobs ?? []
      const exceptJobs = lane.anyJob ? [] : failedJobs
      const from: ClaimFrom = { of: 'account', route, account, exceptJobs }
      return { limit: allowed, from, queue, isOfNewcomer: false, additions }
    }
    return null
  }

  #roomOf({ of }: RouteQueue): number {
    return this.#routes.room(of.route) - of.arriving
  }

  #isLowerDue(queue: RouteQueue): boolean {
    const lower = queue.of.queues.slice(queue.of.queues.indexOf(queue) + 1)
    return lower.some(({ walk, priority }) => walk.mayBeQueued && (this.#turns?.due(priority) ?? 0) > 0)
  }

  #started({ priority }: RouteQueue, jobs: number, turns: LowerTurns): void {
    const queues = [...this.#queues.values()]
    const waits = (lower: Priority) => queues.some((one) => one.priority === lower && one.walk.mayBeQueued)
    turns.started(priority, jobs, waits)
  }

  /** Returns how many jobs whose texts come with the claim fit into memory. If this node holds no job, one always fits. */
  #fitting(): number {
    const fitting = Math.floor(this.#bytes.freeForSmall / MAX_INLINE_BYTES)
    return fitting > 0 || this.#held.total > 0 ? fitting : 1
  }

  #hasBytes(account: string): boolean {
    return (
      this.#bytes.waiting.of(account) === 0 && this.#bytes.decide(account, MAX_INLINE_BYTES) === 'granted'
    )
  }

  #accountsWithoutBytes(): string[] {
    const { held, limit, waiting } = this.#bytes
    const found = [...waiting.keys()]
    // While accounts hold at most a third of the limit, none can exceed its share.
    if (held.total <= limit / 3) return found
    return [...new Set([...found, ...[...held.keys()].filter((account) => !this.#hasBytes(account))])]
  }

  #place(account: string, queue: RouteQueue, bytes: number, claim: PlannedClaim | null): Place {
    this.#held.add(account, 1)
    const { of } = queue
    of.held.add(account, 1)
    of.arriving += 1
    const isUrgent = claim?.isUrgent ?? false
    const isNewcomer = isUrgent || (claim?.isOfNewcomer ?? false)
    if (isNewcomer) of.newcomers += 1
    const priority = isUrgent ? 'high' : queue.priority
    const allowances = [of.limited, of.limitedAccounts.get(account)]
    for (const allowance of allowances) if (allowance) allowance.running += 1
    const isSuspect = claim?.from.of === 'suspects'
    return { account, queue, allowances, isSuspect, bytes, priority, isArriving: true, isNewcomer }
  }

  /** @param route with `priority`, the name of a route; otherwise the name of a queue */
  #queueOf(route: string, priority?: Priority): RouteQueue {
    const name = priority === undefined ? route : queueName(route, priority)
    return this.#queues.get(name) ?? this.#addQueue(name)
  }

  #addQueue(name: string): RouteQueue {
    const { route, priority } = readQueueName(name)
    if (priority !== 'normal') this.#turns ??= new LowerTurns()
    const queue = new RouteQueue(name, priority, this.#stateOf(route))
    for (const account of queue.of.limitedAccounts.keys()) queue.passedOver(account)
    this.#queues.set(name, queue)
    return queue
  }

  #stateOf(route: string): RouteState {
    const known = this.#states.get(route)
    if (known !== undefined) return known
    const state = new RouteState(route, this.#routes.isRated(route))
    const limit = this.#routes.limited.get(route)
    if (limit !== undefined) state.limited = limitedTo(null, limit)
    this.#states.set(route, state)
    return state
  }
}

type NamedQueue = readonly [name: string, queue: RouteQueue]

/**
 * First come the queues of lower priorities that are due, each with the number of jobs that are due. Then come all queues by
 * priority.
 */
function byPriority(
  queues: readonly NamedQueue[],
  turns: LowerTurns,
): (readonly [...NamedQueue, most?: number])[] {
  const of = (priority: Priority) => queues.filter(([, queue]) => queue.priority === priority)
  const due = PRIORITIES.filter((priority) => turns.due(priority) > 0).flatMap((priority) =>
    of(priority).map(([name, queue]) => [name, queue, turns.due(priority)] as const),
  )
  return [...due, ...PRIORITIES.flatMap(of)]
}

function urgent(claim: PlannedClaim | null): PlannedClaim | null {
  return claim && { ...claim, isUrgent: true }
}

export function isLarge<Small extends object>(job: Small | ClaimedLargeJob): job is ClaimedLargeJob {
  return 'textBytes' in job
}
