import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { FakeClock } from '../../test/fake-clock.ts'
import type { MetricListener, MetricSample } from '../admin/overview.ts'
import type { CallbackDepth } from '../store/callback-store.ts'
import type { Depth } from '../store/store.ts'
import { MAX_SAMPLES, MetricSamples, SAMPLE_MS } from './metric-samples.ts'
import { Metrics } from './metrics.ts'

const CALLBACKS: CallbackDepth = { owed: 5, failed: 0, earliestDueMs: null }

function start() {
  const clock = new FakeClock()
  const metrics = new Metrics()
  const database = {
    asked: 0,
    answer: async (): Promise<Depth> => ({
      waiting: 7,
      assigned: 2,
      oldestCreatedAtMs: clock.nowMs() - 3000,
    }),
  }
  const gauges = {
    depth: () => {
      database.asked += 1
      return database.answer()
    },
    callbackDepth: async () => CALLBACKS,
    running: () => 2,
  }
  const samples = new MetricSamples({ metrics, gauges, clock, onError: assert.ifError })
  samples.begin()
  const next = async (): Promise<MetricSample> => {
    await setImmediate()
    await setImmediate()
    clock.advance(SAMPLE_MS)
    return JSON.parse(samples.kept.at(-1) ?? '') as MetricSample
  }
  return { clock, metrics, samples, next, database }
}

const listener = (over: Partial<MetricListener> = {}): MetricListener => ({
  send: () => {},
  end: () => {},
  ...over,
})

test('a sample contains what was counted since the sample before it', async () => {
  const { metrics, next } = start()
  const call = { model: 'm', aborted: false, isTruncated: false, ms: 1 } as const
  metrics.called({ ...call, upstream: 'a', kind: 'answer', status: 200 })
  metrics.called({ ...call, upstream: 'a', kind: 'refused', status: 200 })
  metrics.called({ ...call, upstream: 'b', kind: 'error', status: null })
  metrics.called({ ...call, upstream: 'b', kind: 'error', status: null, aborted: true })
  const attempt = { attempt: 1, atMs: 0, ms: 1, status: 500, error: null, answer: null }
  metrics.calledBack(attempt, 'due')
  metrics.calledBack(attempt, 'failed')
  metrics.calledBack({ ...attempt, status: 200 }, 'delivered')
  const first = await next()
  assert.deepEqual(first.calls, { a: { ok: 2, trouble: 0 }, b: { ok: 0, trouble: 1 } })
  assert.deepEqual(first.callbacks, { delivered: 1, failed_attempts: 2, failed: 1 })
  assert.deepEqual([first.waiting, first.assigned, first.callbacks_owed, first.running], [7, 2, 5, 2])
  const second = await next()
  assert.deepEqual([second.calls, second.seconds], [{}, 2])
  assert.deepEqual(second.callbacks, { delivered: 0, failed_attempts: 0, failed: 0 })
})

test('the samples of a quarter of an hour are kept', async () => {
  const { samples, next } = start()
  for (let made = 0; made < MAX_SAMPLES + 5; made++) await next()
  assert.equal(samples.kept.length, MAX_SAMPLES)
  const [first, last] = [samples.kept[0], samples.kept.at(-1)].map(
    (text) => JSON.parse(text ?? '') as MetricSample,
  )
  assert.equal((last?.at ?? 0) - (first?.at ?? 0), ((MAX_SAMPLES - 1) * SAMPLE_MS) / 1000)
})

test('the database is asked less often while there are no listeners, and never twice at once', async () => {
  const { samples, next, database } = start()
  for (let made = 0; made < 10; made++) await next()
  assert.equal(database.asked, 3)
  samples.listen(listener())
  for (let made = 0; made < 10; made++) await next()
  assert.equal(database.asked, 13)
  database.answer = () => new Promise(() => {})
  for (let made = 0; made < 10; made++) await next()
  assert.equal(database.asked, 14)
})

test('samples are taken while the database does not answer, and its last depths become stale', async () => {
  const { samples, next, database } = start()
  samples.listen(listener())
  assert.equal((await next()).waiting, 7)
  database.answer = () => Promise.reject(new Error('unreachable'))
  assert.equal((await next()).waiting, 7)
  for (let made = 0; made < 15; made++) await next()
  const stale = await next()
  assert.deepEqual(
    [stale.waiting, stale.oldest_age_seconds, stale.callbacks_owed, stale.running],
    [null, null, null, 2],
  )
})

test('a sample is serialised once for all listeners', async () => {
  const { samples, next } = start()
  const events: Uint8Array[] = []
  const leaves = Array.from({ length: 3 }, () =>
    samples.listen(listener({ send: (event) => events.push(event) })),
  )
  assert.equal(samples.listeners, 3)
  await next()
  assert.equal(events.length, 3)
  assert.equal(new Set(events).size, 1)
  assert.equal(Buffer.from(events[0] ?? []).toString(), `event: point\ndata: ${samples.kept[0]}\n\n`)
  for (const leave of leaves) leave?.()
  await next()
  assert.deepEqual([samples.listeners, events.length], [0, 3])
})

test('a stop ends all listeners, takes no further sample, and accepts no new listener', async () => {
  const { clock, samples, next } = start()
  let ended = 0
  samples.listen(listener({ end: () => ended++ }))
  await next()
  await setImmediate()
  samples.stop()
  assert.deepEqual([ended, clock.pending(), samples.listen(listener())], [1, [], null])
})
