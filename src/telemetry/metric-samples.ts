/**
 * Makes a point every two seconds from what the metrics count already, keeps those of the last minutes, and tells who
 * listens: a point is written once, however many there are.
 */

import type { MetricFeed, MetricListener } from '../admin/metric-feed.ts'
import type { MetricSample } from '../admin/metric-sample.ts'
import type { Clock } from '../clock.ts'
import { singleFlight } from '../lookup-cache.ts'
import { PollingLoop } from '../polling-loop.ts'
import type { CallbackDepth } from '../store/callback-store.ts'
import type { Depth } from '../store/store.ts'
import type { Gauges } from './gauges.ts'
import type { Metrics } from './metrics.ts'

export const SAMPLE_MS = 2000
/** A quarter of an hour. */
export const MAX_SAMPLES = 450
export const MAX_LISTENERS = 500
/** How often the database is asked while nobody listens, in points. */
const UNHEARD_EVERY = 5
/** What the database said longer ago is not repeated. */
const STALE_MS = 30_000

export interface MetricSamplesOptions {
  readonly metrics: Pick<Metrics, 'takeDeltas'>
  readonly gauges: Pick<Gauges, 'depth' | 'callbackDepth' | 'running'>
  readonly clock: Clock
  readonly onError: (error: unknown) => void
}

interface Seen {
  readonly depth: Depth
  readonly callbacks: CallbackDepth
  readonly steadyMs: number
}

export class MetricSamples implements MetricFeed {
  readonly #parts: MetricSamplesOptions
  readonly #kept: string[] = []
  readonly #listeners = new Set<MetricListener>()
  #seen: Seen | null = null
  #made = 0
  #lastMs = 0
  #stopped = false
  readonly #look = singleFlight(() => this.#ask())
  readonly #loop: PollingLoop

  constructor(parts: MetricSamplesOptions) {
    this.#parts = parts
    const { clock, onError } = parts
    this.#loop = new PollingLoop({ clock, pauseMs: SAMPLE_MS, task: async () => this.#sample(), onError })
  }

  get kept(): readonly string[] {
    return this.#kept
  }

  begin(): void {
    this.#lastMs = this.#parts.clock.steadyMs()
    void this.#look()
    this.#loop.start()
  }

  listen(listener: MetricListener): (() => void) | null {
    if (this.#stopped || this.#listeners.size >= MAX_LISTENERS) return null
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Lets every listener go. */
  stop(): void {
    this.#stopped = true
    void this.#loop.stop()
    for (const listener of this.#listeners) listener.end()
    this.#listeners.clear()
  }

  #sample(): void {
    const text = JSON.stringify(this.#point())
    if (this.#kept.push(text) > MAX_SAMPLES) this.#kept.shift()
    if (this.#listeners.size > 0) {
      const event = Buffer.from(`event: point\ndata: ${text}\n\n`)
      for (const listener of this.#listeners) listener.send(event)
    }
    this.#made += 1
    if (this.#listeners.size > 0 || this.#made % UNHEARD_EVERY === 0) void this.#look()
  }

  #point(): MetricSample {
    const { metrics, gauges, clock } = this.#parts
    const nowMs = clock.nowMs()
    const steadyMs = clock.steadyMs()
    const seconds = (steadyMs - this.#lastMs) / 1000
    this.#lastMs = steadyMs
    const seen = this.#seen && steadyMs - this.#seen.steadyMs < STALE_MS ? this.#seen : null
    return {
      at: nowMs / 1000,
      seconds,
      ...metrics.takeDeltas(),
      waiting: seen?.depth.waiting ?? null,
      assigned: seen?.depth.assigned ?? null,
      oldest_age_seconds: seen && ageSeconds(seen.depth.oldestCreatedAtMs, nowMs),
      running: gauges.running(),
      callbacks_owed: seen?.callbacks.owed ?? null,
    }
  }

  /** Never rejects, and no sample waits for it: a slow database must not delay them. */
  async #ask(): Promise<void> {
    const { gauges, clock } = this.#parts
    try {
      const [depth, callbacks] = await Promise.all([gauges.depth(), gauges.callbackDepth()])
      this.#seen = { depth, callbacks, steadyMs: clock.steadyMs() }
    } catch {
      // The depths seen last become stale.
    }
  }
}

/** Zero where nothing waits. */
export function ageSeconds(sinceMs: number | null, nowMs: number): number {
  return sinceMs === null ? 0 : Math.max(0, nowMs - sinceMs) / 1000
}
