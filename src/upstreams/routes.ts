/**
 * Routes as the queue sees them: which jobs cannot be started now, because every target that they may be sent to is unavailable
 * or recovers. The queue passes over the jobs of such a route without looking at them.
 */
import type { Trouble } from './model-server.ts'

export interface Routes {
  /** The key of the targets that the job may be sent to, in order; empty if none is configured. */
  routeOf(job: RoutedJob): string
  /** By key, the routes of which not every job can be started now. A new map after each change; mostly empty. */
  readonly limited: ReadonlyMap<string, RouteLimit>
  /** Calls the listener after each change of `limited`. There is one listener. */
  watch(onChange: () => void): void
}

/** What a route depends on. */
export interface RoutedJob {
  readonly model: string
  readonly tier: string
  readonly inputTokens: number
}

export interface RouteLimit {
  /** How many of its jobs may run on this node at once; 0 while none of its targets answers. */
  readonly allowance: number
  /** Jobs that failed last, which are started only if there is no other. */
  readonly failedJobs: readonly string[]
  /** Since when no call to any of its targets has succeeded, Unix time in milliseconds; null if one has since. */
  readonly unavailableSinceMs: number | null
  readonly trouble: Trouble | null
}

export const NO_LIMITS: ReadonlyMap<string, RouteLimit> = new Map()
