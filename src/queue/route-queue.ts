/**
 * What a node knows about one route: how many of its own jobs are on their way to the model server, and what is limited; and about
 * each of its queues, one for each priority: whether jobs may be queued, and whose were passed over. A part of the scheduler's state.
 */
import { isHigher, type Priority } from '../job/priority.ts'
import { Counts } from '../sharing/counts.ts'
import type { ClaimFrom } from '../store/store.ts'
import type { RouteLimit } from '../upstreams/routes.ts'

/** A limit of a route, or of an account on it. */
export interface Allowance {
  limit: RouteLimit
  /** Jobs that started since it was limited. */
  running: number
}

/** The queued jobs of one account, which walks may have passed over. */
interface Lane {
  /** Whether the jobs that failed last may be claimed, because no other was found. */
  anyJob: boolean
}

/** What jobs of all priorities share. */
export class RouteState {
  readonly route: string
  /** Those that are known, the one with the highest priority first. */
  readonly queues: RouteQueue[] = []
  /** Jobs that this node has claimed and not yet finished, by account. */
  readonly held = new Counts<string>()
  /** Those of them whose first call has not begun: the upstream does not count them yet. */
  arriving = 0
  /** Those that were claimed although the upstream is busy, because their accounts held nothing, or others are less urgent. */
  newcomers = 0
  /** Null unless the route is limited. */
  limited: Allowance | null = null
  readonly limitedAccounts = new Map<string, Allowance>()
  /** Whether its jobs may have to wait for a rate. */
  readonly isRated: boolean

  constructor(route: string, isRated: boolean) {
    this.route = route
    this.isRated = isRated
  }

  /** How many jobs this node may start of the account, and of any if it is null, as far as limits go. */
  allowed(account: string | null): number {
    const own = account === null ? null : this.limitedAccounts.get(account)
    return Math.min(leftOf(this.limited), leftOf(own))
  }
}

/** A queue of a route. While a walk of it may find jobs, new ones are queued instead of overtaking them. */
export class RouteQueue {
  /** As it is stored with its jobs. */
  readonly name: string
  readonly priority: Priority
  readonly of: RouteState
  /** The queued jobs that walks find. */
  readonly walk = { mayBeQueued: false, anyJob: false }
  /** By account. */
  readonly lanes = new Map<string, Lane>()
  /** Whether the next claim prefers a lane, so that neither lanes nor walks delay the others for long. */
  isLaneNext = true
  /** Whether an account that holds nothing may have jobs near the head. */
  hasNewcomers = false
  /** Counts additions, so that a claim that started earlier does not prove that nothing is queued. */
  additions = 0

  constructor(name: string, priority: Priority, of: RouteState) {
    this.name = name
    this.priority = priority
    this.of = of
    of.queues.push(this)
    of.queues.sort((one, other) => (isHigher(one.priority, other.priority) ? -1 : 1))
  }

  /** Whether jobs of the route and of a higher priority may be queued, which this queue's must not overtake. */
  get isBehind(): boolean {
    for (const queue of this.of.queues) {
      if (queue === this) return false
      if (queue.walk.mayBeQueued) return true
    }
    return false
  }

  /** Jobs may have been queued. @param account whose they are; null if that is not known */
  added(account: string | null): void {
    this.additions += 1
    // Walks pass over it, and jobs of others do not overtake anything if they start before it.
    if (account !== null && this.of.limitedAccounts.has(account)) {
      this.passedOver(account)
      return
    }
    this.walk.mayBeQueued = true
    this.walk.anyJob = false
    if (account === null || this.of.held.of(account) === 0) this.hasNewcomers = true
    for (const of of account === null ? this.lanes.keys() : [account]) {
      if (this.lanes.has(of)) this.passedOver(of)
    }
  }

  /** Walks pass over this account's jobs. */
  passedOver(account: string): void {
    this.lanes.set(account, { anyJob: false })
  }

  /** What a claim shows about the queue, if nothing was queued meanwhile. */
  learn({ from, isOfNewcomer }: PlannedClaim, found: number, mayHaveMore: boolean): void {
    if (isOfNewcomer) {
      this.hasNewcomers = found > 0
      return
    }
    if (mayHaveMore || from.of === 'suspects') return
    const hasExcepted = from.exceptJobs.length > 0
    if (hasExcepted && found > 0) return
    const line = from.of === 'route' ? this.walk : this.lanes.get(from.account)
    if (line === undefined) return
    if (hasExcepted) line.anyJob = true
    else if (from.of === 'route') this.walk.mayBeQueued = false
    else this.lanes.delete(from.account)
  }
}

/** A claim to make now. */
export interface PlannedClaim {
  readonly limit: number
  readonly from: ClaimFrom
  /** Null for suspects. */
  readonly queue: RouteQueue | null
  readonly isOfNewcomer: boolean
  /** Whether its jobs go to a busy upstream ahead of those that wait there. */
  readonly isUrgent?: boolean
  /** `additions` of the route when the claim was planned. */
  readonly additions: number
}

/** @param before undefined or null if it was not limited */
export function limitedTo(before: Allowance | undefined | null, limit: RouteLimit): Allowance {
  return Object.assign(before ?? { running: 0 }, { limit })
}

function leftOf(allowance: Allowance | null | undefined): number {
  return allowance ? allowance.limit.allowance - allowance.running : Number.POSITIVE_INFINITY
}

export function walkOf(
  queue: RouteQueue,
  limit: number,
  exceptAccounts: readonly string[],
  exceptJobs: readonly string[],
  keepsPlace: boolean,
): PlannedClaim {
  const { name: route, additions } = queue
  const from: ClaimFrom = { of: 'route', route, exceptAccounts, exceptJobs, keepsPlace }
  return { limit, from, queue, isOfNewcomer: false, additions }
}
