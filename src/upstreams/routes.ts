/**
 * What the queue knows about model servers: the route of a job (the targets that it may be sent to), how many jobs of it can
 * start, and for which routes and accounts jobs wait. The queue passes over such jobs without reading them.
 */
import type { Trouble } from './model-server.ts'
import type { Candidates, Target } from './targets.ts'

export interface Routes extends RouteLimits {
  /** The key of the targets that the job may be sent to, in order; empty if none is configured. */
  routeOf(job: RoutedJob): string
  /**
   * How many more jobs of the route can start now: the free slots of the upstream of its first target that can be called, and an
   * eighth of that upstream's limit, at least 1, less the calls that already wait there; and no more than may wait for its rates. May
   * be negative. Infinity for an unknown route, and without patience while no target answers: then waiting for a slot counts to the
   * time limit of a run.
   */
  room(route: string): number
  /** Whether jobs of the route may have to wait for a rate, which they do in the queue, even if a caller waits for them. */
  isRated(route: string): boolean
  /**
   * Calls `onChange` after each change of `limited` or `limitedAccounts`, and `onRoom` when a call has ended, so that another can
   * start. There is one listener of each.
   */
  watch(onChange: () => void, onRoom?: () => void): void
}

/** Jobs of a route that wait on this node for a slot or a rate. */
export interface WaitingJobs {
  readonly route: string
  readonly jobIds: ReadonlySet<string>
}

/** What a route depends on. */
export interface RoutedJob {
  readonly model: string
  readonly tier: string
  readonly inputTokens: number
}

export interface RouteLimits {
  /** For all accounts, by route: no target of the route is available. A new map after each change; mostly empty. */
  readonly limited: ReadonlyMap<string, RouteLimit>
  /**
   * For single accounts, by route and then by account: its calls fail at each target of the route that is not unavailable for all.
   * A new map after each change; mostly empty. Limited routes may have entries too.
   */
  readonly limitedAccounts: ReadonlyMap<string, ReadonlyMap<string, RouteLimit>>
}

export interface RouteLimit {
  /** How many of its jobs may start: a few on trial; 0 while none of its targets responds. */
  readonly allowance: number
  /** Jobs that failed last, which are started only if there are no others. */
  readonly failedJobs: readonly string[]
  /** When calls to its targets started to fail, Unix time in milliseconds; null if one has succeeded since. */
  readonly unavailableSinceMs: number | null
  readonly trouble: Trouble | null
}

export const NO_LIMITS: RouteLimits = { limited: new Map(), limitedAccounts: new Map() }

/** Derives the limits from the health of the targets. */
export function routeLimits(candidates: Iterable<Candidates>): RouteLimits {
  const limited = new Map<string, RouteLimit>()
  const limitedAccounts = new Map<string, ReadonlyMap<string, RouteLimit>>()
  for (const { key, targets } of candidates) {
    const limit = limitOf(targets, null)
    if (limit !== null) limited.set(key, limit)
    const accounts = new Map<string, RouteLimit>()
    for (const account of new Set(targets.flatMap(({ health }) => [...health.accounts.keys()]))) {
      const own = limitOf(targets, account)
      if (own !== null) accounts.set(account, own)
    }
    if (accounts.size > 0) limitedAccounts.set(key, accounts)
  }
  return limited.size + limitedAccounts.size === 0 ? NO_LIMITS : { limited, limitedAccounts }
}

/**
 * Null if one of the targets can be called as often as anybody wants.
 * @param account null for all accounts; null too if the account can call one of the targets as others can
 */
function limitOf(targets: readonly Target[], account: string | null): RouteLimit | null {
  const failedJobs = new Set<string>()
  let allowance = 0
  let isLimited = false
  for (const { health } of targets) {
    const breaker = account === null ? health.all : health.accounts.get(account)
    if (breaker === undefined || breaker.phase === 'available') {
      if (account === null || health.all.phase === 'available') return null
      allowance += health.all.allowance
      continue
    }
    isLimited = true
    allowance += Math.min(breaker.allowance, health.all.allowance)
    for (const jobId of breaker.failedJobs) failedJobs.add(jobId)
  }
  if (!isLimited) return null
  return { allowance, failedJobs: [...failedJobs], ...unavailability(targets, account) }
}

/** @param account null for all accounts */
export function unavailability(
  targets: readonly Target[],
  account: string | null,
): Pick<RouteLimit, 'unavailableSinceMs' | 'trouble'> {
  const health = targets.map(({ health: one }) => one)
  const since = health.map((one) =>
    account === null ? one.all.unavailableSinceMs : one.unavailableSinceMs(account),
  )
  const trouble = health.map((one) => (account === null ? one.all.trouble : one.trouble(account)))
  return { unavailableSinceMs: latest(since), trouble: trouble.findLast((one) => one !== null) ?? null }
}

/** The latest start of several states; null if one of them does not apply. */
function latest(times: readonly (number | null)[]): number | null {
  const known = times.filter((time) => time !== null)
  return known.length < times.length ? null : Math.max(...known)
}
