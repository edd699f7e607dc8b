/**
 * Routes as the queue sees them: which jobs cannot be started now because each of their targets is unavailable or recovering.
 * The queue passes over the jobs of such a route without reading them.
 */
import type { Trouble } from './model-server.ts'

export interface Routes {
  /** The key of the targets that the job may be sent to, in order; empty if none is configured. */
  routeOf(job: RoutedJob): string
  /** The limited routes, by key. A new map after each change; mostly empty. */
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
  /** How many of its jobs may run on this node at the same time; 0 while none of its targets responds. */
  readonly allowance: number
  /** Jobs that failed last, which are started only if there are no others. */
  readonly failedJobs: readonly string[]
  /** When calls to its targets started to fail, Unix time in milliseconds; null if one has succeeded since. */
  readonly unavailableSinceMs: number | null
  readonly trouble: Trouble | null
}

export const NO_LIMITS: ReadonlyMap<string, RouteLimit> = new Map()
