import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Counter, Histogram, Registry } from 'prom-client'
import { MetricCounter, MetricHistogram, Percentiles } from './counters.ts'

const BOUNDS = [0.1, 1, 10]
const sorted = (text: string) => text.split('\n').sort()

test('counters and histograms are written exactly as the library writes its own', async () => {
  const ours = new Registry()
  const theirs = new Registry()
  const count = new MetricCounter(ours, 'a_total', 'A.', ['model', 'outcome'])
  const spread = new MetricHistogram(ours, 'b_seconds', 'B.', BOUNDS, ['model'])
  const plain = new MetricHistogram(ours, 'c_seconds', 'C.', BOUNDS, [])
  const counter = new Counter({
    name: 'a_total',
    help: 'A.',
    labelNames: ['model', 'outcome'],
    registers: [theirs],
  })
  const options = { buckets: BOUNDS, registers: [theirs] }
  const histogram = new Histogram({ name: 'b_seconds', help: 'B.', labelNames: ['model'], ...options })
  const bare = new Histogram({ name: 'c_seconds', help: 'C.', ...options })
  for (const [model, value] of [
    ['x', 0.05],
    ['x', 0.1],
    ['y"\n', 5],
    ['x', 11],
  ] as const) {
    count.add(value, model, 'completed')
    counter.inc({ model, outcome: 'completed' }, value)
    spread.observe(value, model)
    histogram.observe({ model }, value)
    plain.observe(value)
    bare.observe(value)
  }
  assert.deepEqual(sorted(await ours.metrics()), sorted(await theirs.metrics()))
})

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
