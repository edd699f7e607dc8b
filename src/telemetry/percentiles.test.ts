import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Percentiles } from './percentiles.ts'

test('percentiles are right to within a hundredth, from fractions of a millisecond to hours', () => {
  for (const unit of [0.2, 1, 37, 5000, 40_000]) {
    const times = new Percentiles()
    for (let n = 1; n <= 1000; n++) times.add(n * unit)
    const { p50, p95, p99 } = times.take()
    for (const [found, exact] of [
      [p50, 500],
      [p95, 950],
      [p99, 990],
    ] as const) {
      const off = Math.abs((found ?? 0) / (exact * unit) - 1)
      assert.ok(off < 0.01, `${found} for ${exact * unit}`)
    }
  }
})

test('each call to take starts over, and nothing has no percentiles', () => {
  const times = new Percentiles()
  const nothing = { p50: null, p95: null, p99: null }
  assert.deepEqual(times.take(), nothing)
  times.add(0)
  times.add(Number.POSITIVE_INFINITY)
  const { p50, p99 } = times.take()
  assert.equal(p50, 0.1)
  assert.ok((p99 ?? 0) > 86_400_000)
  assert.deepEqual(times.take(), nothing)
})
