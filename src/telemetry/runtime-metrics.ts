/**
 * Provides metrics of the Node runtime, with the names that are usual for Node programs, and measures how busy the event loop
 * is. The lag of the event loop is measured ten times per second. prom-client measures it a hundred times per second, which
 * would cost an idle server more CPU time than everything else.
 */
import { type EventLoopUtilization, monitorEventLoopDelay } from 'node:perf_hooks'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { collectDefaultMetrics, Gauge, type Registry } from 'prom-client'

const EVERY_MS = 100
/** The longest possible interval, 25 days, effectively disables prom-client's own measurement. */
const NEVER_MS = 2 ** 31 - 1
const LAG = 'nodejs_eventloop_lag'
/** promtool rejects these gauges, because their names end like counters. Each is the sum of the one without `_total`. */
const MISNAMED = [
  'nodejs_active_handles_total',
  'nodejs_active_requests_total',
  'nodejs_active_resources_total',
]
const STATISTICS = ['min', 'max', 'mean', 'stddev', 'p50', 'p90', 'p99'] as const

export function addRuntimeMetrics(registry: Registry): void {
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: NEVER_MS })
  for (const name of MISNAMED) registry.removeSingleMetric(name)
  const gauge = (name: string, help: string, collect?: () => Promise<void>) => {
    registry.removeSingleMetric(name)
    return new Gauge({ name, help, registers: [registry], ...(collect && { collect }) })
  }
  const delays = new TimerDelays()
  // The registry collects this gauge before the others, so it can set their values.
  const lag = gauge(`${LAG}_seconds`, 'Time until the event loop came round at this scrape.', async () => {
    const found = delays.take()
    if (found !== null) for (const name of STATISTICS) gauges[name].set(found[name])
    const fromMs = performance.now()
    await nextTurn()
    lag.set((performance.now() - fromMs) / 1000)
  })
  const ofDelays = (name: (typeof STATISTICS)[number]) =>
    gauge(`${LAG}_${name}_seconds`, `How late timers fired since the last scrape: ${name}.`)
  const gauges = {
    min: ofDelays('min'),
    max: ofDelays('max'),
    mean: ofDelays('mean'),
    stddev: ofDelays('stddev'),
    p50: ofDelays('p50'),
    p90: ofDelays('p90'),
    p99: ofDelays('p99'),
  }
}

class TimerDelays {
  /** Each value is the time between two timers: the interval plus the delay of the second timer. */
  readonly #between = monitorEventLoopDelay({ resolution: EVERY_MS })

  constructor() {
    this.#between.enable()
  }

  /** Returns the delays since the last call, in seconds; null if no timer has fired since then. */
  take(): Readonly<Record<(typeof STATISTICS)[number], number>> | null {
    const between = this.#between
    if (between.count === 0) return null
    const late = (ns: number) => Math.max(0, ns / 1e9 - EVERY_MS / 1000)
    const found = {
      min: late(between.min),
      max: late(between.max),
      mean: late(between.mean),
      stddev: between.stddev / 1e9,
      p50: late(between.percentile(50)),
      p90: late(between.percentile(90)),
      p99: late(between.percentile(99)),
    }
    between.reset()
    return found
  }
}

/** A figure stays valid for this long, so that two readers in quick succession get the same one. */
const LEAST_MS = 1000

interface LoopMeter {
  eventLoopUtilization(one?: EventLoopUtilization, other?: EventLoopUtilization): EventLoopUtilization
}

/** Returns a function that returns the busy part of the time since its last measurement, from 0 to 1. */
export function busyMeter(meter: LoopMeter): () => number {
  let last: EventLoopUtilization | undefined
  let lastMs = Number.NEGATIVE_INFINITY
  let busy = 0
  return () => {
    const nowMs = performance.now()
    if (nowMs - lastMs < LEAST_MS) return busy
    const now = meter.eventLoopUtilization()
    // Without an earlier measurement, Node would compare `now` with a later time, which can result in a negative figure.
    busy = last === undefined ? now.utilization : meter.eventLoopUtilization(now, last).utilization
    last = now
    lastMs = nowMs
    return busy
  }
}
