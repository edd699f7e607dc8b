import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Counter, Histogram, Registry } from 'prom-client'
import { MetricCounter, MetricHistogram } from './counters.ts'

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
