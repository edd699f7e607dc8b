/**
 * Takes a metric sample every two seconds, keeps those of the last 15 minutes, and sends each one to all listeners. Also builds
 * the overview of the admin API.
 */

import type { CurrentState, MetricFeed, MetricListener, MetricSample, Upstream } from '../admin/overview.ts'
import type { Clock } from '../clock.ts'
import { singleFlight } from '../lookup-cache.ts'
import { PollingLoop } from '../polling-loop.ts'
import type { CallbackDepth } from '../store/callback-store.ts'
import type { Depth } from '../store/store.ts'
import type { TargetState } from '../upstreams/routing-table.ts'
import { ageSeconds, type Gauges } from './gauges.ts'
import type { Metrics } from './metrics.ts'

export const SAMPLE_MS = 2000
/** At most this many samples are kept: those of 15 minutes. */
export const MAX_SAMPLES = 450
/** Without listeners, only every fifth sample queries the database. */
const IDLE_EVERY = 5
/** Samples leave out counts from the database that are older than this. */
const STALE_MS = 30_000

export interface MetricSamplesOptions {
  readonly metrics: Pick<Metrics, 'takeDeltas'>
  readonly gauges: Pick<Gauges, 'depth' | 'callbackDepth' | 'running'>
  readonly clock: Clock
  readonly onError: (error: unknown) => void
}

interface Depths {
  readonly depth: Depth
  readonly callbacks: CallbackDepth
  readonly steadyMs: number
}

export class MetricSamples implements MetricFeed {
  readonly #parts: MetricSamplesOptions
  readonly #kept: string[] = []
  readonly #listeners = new Set<MetricListener>()
  #last: Depths | null = null
  #taken = 0
  #lastSampleMs = 0
  #stopped = false
  readonly #readDepths = singleFlight(() => this.#askDatabase())
  readonly #loop: PollingLoop

  constructor(parts: MetricSamplesOptions) {
    this.#parts = parts
    const { clock, onError } = parts
    this.#loop = new PollingLoop({ clock, pauseMs: SAMPLE_MS, task: async () => this.#takeSample(), onError })
  }

  get kept(): readonly string[] {
    return this.#kept
  }

  get listeners(): number {
    return this.#listeners.size
  }

  begin(): void {
    this.#lastSampleMs = this.#parts.clock.steadyMs()
    void this.#readDepths()
    this.#loop.start()
  }

  listen(listener: MetricListener): (() => void) | null {
    if (this.#stopped) return null
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Ends the stream of each listener, and refuses further ones. */
  stop(): void {
    this.#stopped = true
    void this.#loop.stop()
    for (const listener of this.#listeners) listener.end()
    this.#listeners.clear()
  }

  #takeSample(): void {
    const text = JSON.stringify(this.#nextSample())
    if (this.#kept.push(text) > MAX_SAMPLES) this.#kept.shift()
    if (this.#listeners.size > 0) {
      const event = Buffer.from(`event: point\ndata: ${text}\n\n`)
      for (const listener of this.#listeners) listener.send(event)
    }
    this.#taken += 1
    if (this.#listeners.size > 0 || this.#taken % IDLE_EVERY === 0) void this.#readDepths()
  }

  #nextSample(): MetricSample {
    const { metrics, gauges, clock } = this.#parts
    const nowMs = clock.nowMs()
    const steadyMs = clock.steadyMs()
    const seconds = (steadyMs - this.#lastSampleMs) / 1000
    this.#lastSampleMs = steadyMs
    const last = this.#last && steadyMs - this.#last.steadyMs < STALE_MS ? this.#last : null
    return {
      at: nowMs / 1000,
      seconds,
      ...metrics.takeDeltas(),
      waiting: last?.depth.waiting ?? null,
      assigned: last?.depth.assigned ?? null,
      oldest_age_seconds: last && ageSeconds(last.depth.oldestCreatedAtMs, nowMs),
      running: gauges.running(),
      callbacks_owed: last?.callbacks.owed ?? null,
    }
  }

  /** Never rejects. Samples do not wait for this query, because the database may be slow. */
  async #askDatabase(): Promise<void> {
    const { gauges, clock } = this.#parts
    try {
      const [depth, callbacks] = await Promise.all([gauges.depth(), gauges.callbackDepth()])
      this.#last = { depth, callbacks, steadyMs: clock.steadyMs() }
    } catch {
      // The previous counts stay in use until they are older than STALE_MS.
    }
  }
}

interface OverviewParts {
  readonly about: Pick<CurrentState, 'version' | 'node' | 'role' | 'simulated' | 'started_at'>
  readonly gauges: Pick<
    Gauges,
    | 'running'
    | 'suspects'
    | 'connections'
    | 'busy'
    | 'heldBack'
    | 'pendingResponses'
    | 'callbacksInProgress'
    | 'upstreams'
  >
  readonly depth: Depth
  readonly callbacks: CallbackDepth
  readonly nowMs: number
}

export function overviewOf({ about, gauges, depth, callbacks, nowMs }: OverviewParts): CurrentState {
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
      suspects: gauges.suspects(),
    },
    callbacks: {
      owed: callbacks.owed,
      failed: callbacks.failed,
      late_seconds: ageSeconds(callbacks.earliestDueMs, nowMs),
      under_way: gauges.callbacksInProgress(),
    },
    held_back: [...gauges.heldBack()],
    upstreams: gauges
      .upstreams()
      .map(({ name, running, waiting, waitingForRate, limit, maxConcurrency, openUntilMs, targets }) => ({
        name,
        running,
        waiting: waiting + (waitingForRate ?? 0),
        concurrency_limit: limit,
        max_concurrency: maxConcurrency,
        skipped_until: openUntilMs === null ? null : openUntilMs / 1000,
        rejected_roles: rejectedRoles(targets),
        unavailable: unavailableOf(targets),
        limited_accounts: Math.max(0, ...targets.map(({ limitedAccounts }) => limitedAccounts)),
      })),
  }
}

function unavailableOf(targets: readonly TargetState[]): Upstream['unavailable'] {
  return targets.flatMap(({ model, unavailable }) => {
    if (unavailable === null) return []
    const { kind: reason, status, message } = unavailable.trouble
    return [{ model, since: unavailable.sinceMs / 1000, reason, status, message }]
  })
}

function rejectedRoles(targets: readonly TargetState[]): Upstream['rejected_roles'] {
  return targets.flatMap(({ model, learnedRoles: learned }) =>
    learned === null ? [] : [{ model, rejects: learned.rejects, until: learned.untilMs / 1000 }],
  )
}
