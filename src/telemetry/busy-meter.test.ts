import assert from 'node:assert/strict'
import type { EventLoopUtilization } from 'node:perf_hooks'
import test from 'node:test'
import { busyMeter } from './busy-meter.ts'

test('the first figure is the part since the event loop started', () => {
  const since = { idle: 30, active: 10, utilization: 0.25 }
  // As of Node: one argument is compared with the present.
  const meter = {
    eventLoopUtilization: (now?: EventLoopUtilization, last?: EventLoopUtilization) =>
      now !== undefined && last === undefined ? { idle: -1, active: 0.5, utilization: -1 } : since,
  }
  assert.equal(busyMeter(meter)(), 0.25)
})
