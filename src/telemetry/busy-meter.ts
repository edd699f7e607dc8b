/** How busy an event loop is. */
import type { EventLoopUtilization } from 'node:perf_hooks'

/** For how long a figure is repeated: otherwise, the second of two readers would get that of the moment between them. */
const LEAST_MS = 1000

export interface LoopMeter {
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
