/**
 * Keeps the scheduler's state of one route: how many of its jobs this node holds, its limits, and a queue for each priority. A
 * *walk* is a claim that goes through a queue in order. A claim from a lane takes the jobs of one account.
 */
import { isHigher, type Priority } from '../job/priority.ts'
import { Counts } from '../sharing/counts.ts'
import type { ClaimFrom } from '../store/store.ts'
import type { RouteLimit } from '../upstreams/routes.ts'

/** Limits the running jobs of a route, or of an account on the route. */
export interface Allowance {
  limit: RouteLimit
  /** Counts the running jobs that started under this limit or an earlier one. */
  running: number
}

interface Lane {
  /** Whether to claim even the jobs that failed last, because a claim has found no others. */
  anyJob: boolean
}

export class RouteState {
  readonly route: string
  /** The queues are sorted by priority, the highest first. Queues that no job has used may be missing. */
  readonly queues: RouteQueue[] = []
  /** Counts the jobs that this node holds, by account. */
  readonly held = new Counts<string>()
  /** Counts the jobs whose first calls have not begun, so that the upstream does not count them yet. */
  arriving = 0
  /**
   * Counts the jobs that wait for a slot of a busy upstream, because they are urgent or because their account held nothing
   * there (a newcomer).
   */
  newcomers = 0
  limited: Allowance | null = null
  readonly limitedAccounts = new Map<string, Allowance>()
  /** Whether rate limits of the targets may make jobs wait. */
  readonly isRated: boolean

  constructor(route: string, isRated: boolean) {
    this.route = route
    this.isRated = isRated
  }

  /**
   * Returns how many more jobs the limits allow to start.
   * @param account null for all accounts
   */
  allowed(account: string | null): number {
    const own = account === null ? null : this.limitedAccounts.get(account)
    return Math.min(leftOf(this.limited), leftOf(own))
  }
}

/** While walks may find jobs in this queue, new jobs are queued too, so that they do not overtake those. */
export class RouteQueue {
  /** The store keeps this name with the queued jobs. */
  readonly name: string
  readonly priority: Priority
  readonly of: RouteState
  /** `mayBeQueued`: whether walks may find jobs. `anyJob`: whether walks take even the jobs that failed last. */
  readonly walk = { mayBeQueued: false, anyJob: false }
  /** A claim takes the first lane whose jobs may start, and moves that lane to the end. */
  readonly lanes = new Map<string, Lane>()
  /** Whether the next claim tries a lane first, so that lanes and walks alternate. */
  isLaneNext = true
  /** Whether jobs of newcomers (accounts that hold nothing on the route) may be queued. */
  hasNewcomers = false
  /** Counts how often jobs were added. A claim that started before an addition does not prove that nothing is queued. */
  additions = 0

  constructor(name: string, priority: Priority, of: RouteState) {
    this.name = name
    this.priority = priority
    this.of = of
    of.queues.push(this)
    of.queues.sort((one, other) => (isHigher(one.priority, other.priority) ? -1 : 1))
  }

  /** Whether jobs of a higher priority may be queued on the route. Jobs of this queue must not overtake them. */
  get isBehind(): boolean {
    for (const queue of this.of.queues) {
      if (queue === this) return false
      if (queue.walk.mayBeQueued) return true
    }
    return false
  }

  /** @param account the account whose jobs may have been queued; null if it is not known */
  added(account: string | null): void {
    this.additions += 1
    // Walks skip the jobs of a limited account anyway. So the jobs go to its lane, and jobs of other accounts need not be
    // queued behind them.
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

  /** Records that walks skip this account's jobs. */
  passedOver(account: string): void {
    this.lanes.set(account, { anyJob: false })
  }

  /** Records what a claim shows about the queue. Call this only if no jobs were added since the claim was planned. */
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

export interface PlannedClaim {
  readonly limit: number
  readonly from: ClaimFrom
  /** A claim of suspects has no queue. */
  readonly queue: RouteQueue | null
  readonly isOfNewcomer: boolean
  /** Whether the jobs get the priority `high` at their upstream, where they wait ahead of others. */
  readonly isUrgent?: boolean
  /** `RouteQueue.additions` had this value when the claim was planned. */
  readonly additions: number
}

/**
 * Returns the new limit. Jobs that run under the previous limit count under the new one, too.
 * @param before undefined or null if there was no limit
 */
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
