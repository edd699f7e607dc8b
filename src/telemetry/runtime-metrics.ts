/**
 * The metrics of the runtime, under the names that Node programs have for them. The lag of the event loop is measured here, ten times
 * a second: prom-client sets a hundred timers a second for it, which cost an idle server more CPU time than everything else. How
 * late a timer is at some moment is distributed in the same way, however many moments are looked at. And how busy an event loop is.
 */
import { type EventLoopUtilization, monitorEventLoopDelay } from 'node:perf_hooks'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { collectDefaultMetrics, Gauge, type Registry } from 'prom-client'

const EVERY_MS = 100
/** The timer of prom-client fires after 25 days. */
const NEVER_MS = 2 ** 31 - 1
const LAG = 'nodejs_eventloop_lag'
/** Gauges with the suffix of counters, which promtool rejects. Each is the sum of a gauge with the same name without it. */
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
  // It is collected before the others, which it sets.
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

/** How late a timer fires that is set again and again. */
class TimerDelays {
  /** Of the times between two timers: their interval, and how late the second one is. */
  readonly #between = monitorEventLoopDelay({ resolution: EVERY_MS })

  constructor() {
    this.#between.enable()
  }

  /** In seconds, since the last call; null if no timer has fired since. */
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

/** For how long a figure is repeated: otherwise, the second of two readers would get that of the moment between them. */
const LEAST_MS = 1000

interface LoopMeter {
  eventLoopUtilization(one?: EventLoopUtilization, other?: EventLoopUtilization): EventLoopUtilization
}

/**
 * Returns a function that measures the part of the time, from 0 to 1, in which the event loop was busy since the last
 * measurement, at least a second ago.
 */
export function busyMeter(meter: LoopMeter): () => number {
  let last: EventLoopUtilization | undefined
  let lastMs = Number.NEGATIVE_INFINITY
  let busy = 0
  return () => {
    const nowMs = performance.now()
    if (nowMs - lastMs < LEAST_MS) return busy
    const now = meter.eventLoopUtilization()
    // Without a last one, Node would compare `now` with a moment later, which can give a negative figure.
    busy = last === undefined ? now.utilization : meter.eventLoopUtilization(now, last).utilization
    last = now
    lastMs = nowMs
    return busy
  }
}
