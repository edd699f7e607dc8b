/**
 * Defines what the queue knows about model servers: the route of a job (the targets that it may be sent to), how many of the
 * route's jobs can start, and which jobs must wait. Claims skip jobs that must wait, without reading them.
 */
import type { Trouble } from './model-server.ts'
import type { Candidates, Target } from './routing-table.ts'

export interface Routes extends RouteLimits {
  /** Returns the names of the targets that the job may be sent to, in order; empty if none is configured. */
  routeOf(job: RoutedJob): string
  /**
   * Returns how many more jobs of the route can start now, which may be negative. That is the number of free slots at the
   * upstream of the first target that can be called, plus an eighth of its limit (at least 1), less the calls that wait there.
   * It is at most the number of calls that may wait for the target's rates.
   *
   * Returns 0 while jobs of the route wait and are at least as many as the node's slots without waiting jobs. Returns Infinity
   * for an unknown route, and without patience while no target answers, because a run's time limit then includes the wait for a
   * slot.
   */
  room(route: string): number
  /** Returns whether jobs of the route may wait for a rate. They wait in the queue, even if a caller waits for them. */
  isRated(route: string): boolean
  /**
   * Calls `onChange` whenever `limited` or `limitedAccounts` has changed, and `onRoom` when a call has ended, so that another
   * call can start. Only the last listeners are called.
   */
  watch(onChange: () => void, onRoom?: () => void): void
}

/** These are the jobs of one route that wait on this node for a rate, a slot or their turn at a target. */
export interface WaitingJobs {
  readonly route: string
  readonly jobIds: ReadonlySet<string>
}

export interface RoutedJob {
  readonly model: string
  readonly tier: string
  readonly inputTokens: number
}

export interface RouteLimits {
  /** These routes have no available target, for all accounts. The map is replaced at each change and usually empty. */
  readonly limited: ReadonlyMap<string, RouteLimit>
  /**
   * The calls of these accounts fail at each target of the route that is available to others. The map is replaced at each
   * change and usually empty. Routes in `limited` may have entries, too.
   */
  readonly limitedAccounts: ReadonlyMap<string, ReadonlyMap<string, RouteLimit>>
}

export interface RouteLimit {
  /** This many jobs may start: a few during a trial, none while no target responds. */
  readonly allowance: number
  /** These jobs failed last. They are started only if there are no others. */
  readonly failedJobs: readonly string[]
  /** No target has been available since this time (Unix time). The value is null if a target is available. */
  readonly unavailableSinceMs: number | null
  readonly trouble: Trouble | null
}

export const NO_LIMITS: RouteLimits = { limited: new Map(), limitedAccounts: new Map() }

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
 * Returns null if a target is available, or if only the limit of all accounts applies to the account. With a null `account`,
 * returns the limit of all accounts.
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

/** Returns since when no target is available (null if one is). A null `account` stands for all accounts. */
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

function latest(times: readonly (number | null)[]): number | null {
  const known = times.filter((time) => time !== null)
  return known.length < times.length ? null : Math.max(...known)
}
