/** Builds the overview of the admin API from the gauges of the node and the counts of its database. */
import type { Overview, UpstreamView } from '../admin/overview.ts'
import type { CallbackDepth } from '../store/callback-store.ts'
import type { Depth } from '../store/store.ts'
import type { TargetState } from '../upstreams/upstream-state.ts'
import { ageSeconds } from './age.ts'
import type { Gauges } from './gauges.ts'

export interface OverviewParts {
  readonly about: Pick<Overview, 'version' | 'node' | 'role' | 'simulated' | 'started_at'>
  readonly gauges: Pick<
    Gauges,
    'running' | 'connections' | 'busy' | 'heldBack' | 'pendingResponses' | 'callbacksInProgress' | 'upstreams'
  >
  readonly depth: Depth
  readonly callbacks: CallbackDepth
  readonly nowMs: number
}

export function overviewOf({ about, gauges, depth, callbacks, nowMs }: OverviewParts): Overview {
  return {
    ...about,
    now: nowMs / 1000,
    threads: [{ connections: gauges.connections(), busy: gauges.busy() }],
    jobs: {
      waiting: depth.waiting,
      assigned: depth.assigned,
      oldest_age_seconds: ageSeconds(depth.oldestCreatedAtMs, nowMs),
      running: gauges.running(),
      waiters: gauges.pendingResponses(),
    },
    callbacks: {
      owed: callbacks.owed,
      failed: callbacks.failed,
      late_seconds: ageSeconds(callbacks.earliestDueMs, nowMs),
      under_way: gauges.callbacksInProgress(),
    },
    held_back: gauges.heldBack(),
    upstreams: gauges
      .upstreams()
      .map(({ name, running, waiting, limit, maxConcurrency, openUntilMs, targets }) => ({
        name,
        running,
        waiting,
        concurrency_limit: limit,
        max_concurrency: maxConcurrency,
        skipped_until: openUntilMs === null ? null : openUntilMs / 1000,
        rejected_roles: rejectedRoles(targets),
        unavailable: unavailableOf(targets),
      })),
  }
}

function unavailableOf(targets: readonly TargetState[]): UpstreamView['unavailable'] {
  return targets.flatMap(({ model, unavailable }) => {
    if (unavailable === null) return []
    const { kind: reason, status, message } = unavailable.trouble
    return [{ model, since: unavailable.sinceMs / 1000, reason, status, message }]
  })
}

function rejectedRoles(targets: readonly TargetState[]): UpstreamView['rejected_roles'] {
  return targets.flatMap(({ model, learnedRoles: learned }) =>
    learned === null ? [] : [{ model, rejects: learned.rejects, until: learned.untilMs / 1000 }],
  )
}
