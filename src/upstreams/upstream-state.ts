/** The load and the health of the upstreams, for the dashboard and for metrics. */
import type { CircuitBreaker } from './circuit-breaker.ts'
import type { LearnedRoles, Trouble } from './model-server.ts'
import type { RoutingTable } from './targets.ts'

/** An upstream as the health view shows it. */
export interface UpstreamState {
  readonly name: string
  readonly running: number
  readonly waiting: number
  /** The current limit of concurrent calls, and its maximum. */
  readonly limit: number
  readonly maxConcurrency: number
  /** When the first of its targets is checked next (wall clock); null unless all of them are unavailable. */
  readonly openUntilMs: number | null
  readonly targets: readonly TargetState[]
}

export interface TargetState {
  readonly model: string
  readonly consecutiveFailures: number
  /** When it is checked next (wall clock); null unless it is unavailable. */
  readonly openUntilMs: number | null
  /** What its chat template rejects; null if unknown or nothing. */
  readonly learnedRoles: LearnedRoles | null
  /** Null while it is available; otherwise when its calls started to fail (wall clock), and why. */
  readonly unavailable: { readonly sinceMs: number; readonly trouble: Trouble } | null
}

export function upstreamStates({
  upstreams,
  targets,
}: Pick<RoutingTable, 'upstreams' | 'targets'>): UpstreamState[] {
  return [...upstreams].map(([name, upstream]) => {
    const states = targets
      .filter((target) => target.upstream === upstream)
      .map(({ model, health }) => ({
        model,
        consecutiveFailures: health.consecutiveFailures,
        openUntilMs: health.openUntilMs,
        unavailable: unavailableOf(health),
        learnedRoles: upstream.server.learnedRoles(model),
      }))
    return {
      name,
      running: upstream.slots.held.total,
      waiting: upstream.slots.waiting.total,
      limit: upstream.limit.limit,
      maxConcurrency: upstream.limit.ceiling,
      openUntilMs: earliestIfAll(states.map((target) => target.openUntilMs)),
      targets: states,
    }
  })
}

function unavailableOf({ unavailableSinceMs: sinceMs, trouble }: CircuitBreaker): TargetState['unavailable'] {
  return sinceMs === null || trouble === null ? null : { sinceMs, trouble }
}

function earliestIfAll(times: readonly (number | null)[]): number | null {
  let earliest: number | null = null
  for (const time of times) {
    if (time === null) return null
    earliest = Math.min(earliest ?? time, time)
  }
  return earliest
}
