/**
 * Which jobs the worker may start while routes are limited: none while no target responds, then one, then more. While no
 * route is limited, which is nearly always, this costs nothing.
 *
 * Jobs of a limited route are claimed separately, as many as it may have; all other claims pass them over. Jobs that have
 * waited for too long are claimed as well: they fail when they are executed.
 */
import type { Clock } from '../clock.ts'
import type { Job } from '../job/job.ts'
import { jobBytes, jobTextWithin, SMALL_BYTES } from '../sharing/byte-budget.ts'
import type { Claimed, RouteBounds } from '../store/store.ts'
import type { RouteLimit, Routes } from '../upstreams/routes.ts'
import type { Capacity } from './capacity.ts'
import type { PlannedClaim } from './claim-plan.ts'

/** How often to look for jobs that have waited too long. */
export const OVERDUE_EVERY_MS = 5_000
const MAX_CLAIM = 256
const SMALL_TEXT = jobTextWithin(SMALL_BYTES)

export interface LimitedRoutesOptions {
  readonly routes: Routes
  readonly clock: Clock
  readonly patienceMs: number
  readonly capacity: Capacity
  /** Called when jobs can be claimed that could not be claimed before. */
  readonly onChange: () => void
}

interface RouteState {
  /** Jobs that were started since it was limited. */
  running: number
  /** Whether jobs of it may be queued. */
  mayBeQueued: boolean
  isOverdueDue: boolean
  /** Its next job needs more bytes than a claim of several allows. */
  large: 'none' | 'fits alone' | 'waits for bytes'
}

export class LimitedRoutes {
  readonly #options: LimitedRoutesOptions
  readonly #states = new Map<string, RouteState>()
  /** The route of each job that counts as running. */
  readonly #started = new Map<string, string>()
  #cancelTimer: (() => void) | null = null
  #isStopped = false
  /** Counts additions to the queue, so that a claim that started earlier does not prove that a route is empty. */
  #wakeUps = 0
  /** Whether any route is limited. A field, written only here, because every job reads it. */
  isAny = false

  constructor(options: LimitedRoutesOptions) {
    this.#options = options
    options.routes.watch(() => this.#update())
  }

  /** The routes that other claims pass over; absent if there are none. */
  get bounds(): { readonly exceptRoutes?: readonly string[] } {
    return this.#states.size === 0 ? {} : { exceptRoutes: [...this.#states.keys()] }
  }

  /** Whether the job must be queued because of its route. */
  blocks(job: Job): boolean {
    const route = this.#options.routes.routeOf(job)
    const state = this.#states.get(route)
    return state !== undefined && this.#allowance(route, state) <= 0
  }

  /** A job is started: it was claimed, or is handed off. */
  started(job: Job): void {
    if (this.#states.size === 0) return
    const route = this.#options.routes.routeOf(job)
    const state = this.#states.get(route)
    if (state === undefined || this.#started.has(job.id)) return
    state.running += 1
    this.#started.set(job.id, route)
  }

  ended(job: Job): void {
    if (this.#states.size === 0) return
    for (const state of this.#states.values()) if (state.large === 'waits for bytes') state.large = 'none'
    const route = this.#started.get(job.id)
    const state = route === undefined ? undefined : this.#states.get(route)
    this.#started.delete(job.id)
    if (state !== undefined) state.running -= 1
  }

  /** Changes whenever jobs of a limited route may have been queued. */
  get wakeUps(): number {
    return this.#wakeUps
  }

  /** Jobs of any route may have been queued, by this node or another. */
  mayBeQueued(): void {
    this.#wakeUps += 1
    for (const state of this.#states.values()) state.mayBeQueued = true
  }

  /** A job was queued. Whether it waits for a limited route, so that no other claim finds it. */
  queued(route: string): boolean {
    const state = this.#states.get(route)
    if (state === undefined) return false
    this.#wakeUps += 1
    state.mayBeQueued = true
    return true
  }

  /** The next claim for a limited route; null if there is none. */
  next(): PlannedClaim | null {
    const slots = Math.min(this.#options.capacity.freeShared, MAX_CLAIM)
    if (slots <= 0) return null
    for (const [route, state] of this.#states) {
      const claim = this.#claimOf(route, state, slots)
      if (claim !== null) return claim
    }
    return null
  }

  /** @param wakeUps the value of `wakeUps` when the claim started */
  learn(
    { limit }: PlannedClaim,
    { route, overdue }: RouteBounds,
    { jobs, tooLarge }: Claimed,
    wakeUps: number,
  ): void {
    const state = this.#states.get(route)
    if (state === undefined) return
    if (overdue !== undefined) state.isOverdueDue = jobs.length === limit
    else if (tooLarge !== null) state.large = this.#decide(tooLarge)
    else {
      state.large = 'none'
      // A claim that found other jobs did not claim those that failed last or are poison candidates.
      state.mayBeQueued = jobs.length > 0 || wakeUps !== this.#wakeUps
    }
  }

  stop(): void {
    this.#isStopped = true
    this.#cancelTimer?.()
  }

  #claimOf(route: string, state: RouteState, slots: number): PlannedClaim | null {
    const found = this.#options.routes.limited.get(route)
    if (found === undefined) return null
    const { unavailableSinceMs, failedJobs } = found
    if (state.isOverdueDue && unavailableSinceMs !== null) {
      const overdue = { unavailableSinceMs, patienceMs: this.#options.patienceMs }
      return { limit: slots, bounds: { ofRoute: { route, onlyIfAlone: [], overdue } }, fromReserve: false }
    }
    const limit = Math.min(slots, this.#allowance(route, state))
    if (limit <= 0 || !state.mayBeQueued || state.large === 'waits for bytes') return null
    const ofRoute = { route, onlyIfAlone: failedJobs }
    if (state.large === 'fits alone') return { limit: 1, bounds: { ofRoute }, fromReserve: false }
    const bytes = { small: SMALL_TEXT, max: jobTextWithin(this.#options.capacity.partOfNewcomer / 2) }
    return { limit, bounds: { ofRoute, bytes }, fromReserve: false }
  }

  #decide({ account, bytes }: NonNullable<Claimed['tooLarge']>): RouteState['large'] {
    const decision = this.#options.capacity.decideLarge(account, jobBytes(bytes), false)
    return decision === 'granted' || decision === 'reserve' ? 'fits alone' : 'waits for bytes'
  }

  #allowance(route: string, { running }: RouteState): number {
    return (this.#options.routes.limited.get(route)?.allowance ?? 0) - running
  }

  #update(): void {
    const { limited } = this.#options.routes
    for (const route of this.#states.keys()) if (!limited.has(route)) this.#remove(route)
    for (const route of limited.keys()) if (!this.#states.has(route)) this.#add(route)
    this.isAny = this.#states.size > 0
    if ([...limited.values()].some(isUnavailable)) this.#watchOverdue()
    this.#options.onChange()
  }

  #add(route: string): void {
    this.#states.set(route, { running: 0, mayBeQueued: true, isOverdueDue: false, large: 'none' })
  }

  #remove(route: string): void {
    this.#states.delete(route)
    for (const [jobId, of] of this.#started) if (of === route) this.#started.delete(jobId)
  }

  #watchOverdue(): void {
    if (this.#cancelTimer !== null || this.#isStopped) return
    this.#cancelTimer = this.#options.clock.after(OVERDUE_EVERY_MS, () => {
      this.#cancelTimer = null
      const { limited } = this.#options.routes
      for (const [route, state] of this.#states) {
        const limit = limited.get(route)
        state.isOverdueDue = limit !== undefined && isUnavailable(limit)
      }
      if ([...limited.values()].some(isUnavailable)) this.#watchOverdue()
      this.#options.onChange()
    })
  }
}

function isUnavailable({ unavailableSinceMs }: RouteLimit): boolean {
  return unavailableSinceMs !== null
}
