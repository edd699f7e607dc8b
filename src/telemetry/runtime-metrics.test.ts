/** Tests that the metrics of the runtime have the names that are usual for Node programs. */
import assert from 'node:assert/strict'
import type { EventLoopUtilization } from 'node:perf_hooks'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Registry } from 'prom-client'
import { addRuntimeMetrics, busyMeter } from './runtime-metrics.ts'

const HELD_MS = 400

async function maxLagSeconds(registry: Registry): Promise<number> {
  const text = await registry.metrics()
  return Number(/^nodejs_eventloop_lag_max_seconds (\S+)$/m.exec(text)?.[1])
}

function holdLoop(): void {
  const untilMs = performance.now() + HELD_MS
  while (performance.now() < untilMs);
}

test('the lag of the event loop is how late its timers are, and 0 before the first of them', async () => {
  const registry = new Registry()
  addRuntimeMetrics(registry)
  assert.equal(await maxLagSeconds(registry), 0)
  // The lag is the time between two timers, so a single long turn of the event loop may not show it. The next turn does.
  while ((await maxLagSeconds(registry)) < (HELD_MS - 200) / 1000) {
    holdLoop()
    await nextTurn()
  }
})

test('all the names of prom-client are there, once', async () => {
  const registry = new Registry()
  addRuntimeMetrics(registry)
  const names = (await registry.metrics()).match(/^# TYPE nodejs_eventloop_lag\S* \S+$/gm)
  const statistics = ['', 'min_', 'max_', 'mean_', 'stddev_', 'p50_', 'p90_', 'p99_']
  assert.deepEqual(
    names?.sort(),
    statistics.map((of) => `# TYPE nodejs_eventloop_lag_${of}seconds gauge`).sort(),
  )
})

test('the first figure is the part since the event loop started', () => {
  const since = { idle: 30, active: 10, utilization: 0.25 }
  // As in Node, a single argument is compared with the current time.
  const meter = {
    eventLoopUtilization: (now?: EventLoopUtilization, last?: EventLoopUtilization) =>
      now !== undefined && last === undefined ? { idle: -1, active: 0.5, utilization: -1 } : since,
  }
  assert.equal(busyMeter(meter)(), 0.25)
})
