import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { FakeClock } from '../../test/fake-clock.ts'
import { retentionLoop } from './retention.ts'

test('what has expired is deleted in steps without long pauses, and a failure does not make it hurry', async () => {
  const clock = new FakeClock()
  const startedMs = clock.steadyMs()
  const results: (boolean | Error)[] = [true, true, false, new Error('no database'), true, false]
  const stepsAtMs: number[] = []
  const errors: unknown[] = []
  const loop = retentionLoop({
    store: {
      expire: async () => {
        stepsAtMs.push(clock.steadyMs() - startedMs)
        const result = results[stepsAtMs.length - 1] ?? false
        if (result instanceof Error) throw result
        return result
      },
    },
    clock: {
      nowMs: () => clock.nowMs(),
      steadyMs: () => clock.steadyMs(),
      after: (ms, run) => clock.after(ms, run),
    },
    retentionMs: 1000,
    onError: (error) => errors.push(error),
  })
  loop.start()
  for (const ms of [10_000, 20, 20, 10_000, 10_000, 20, 9999, 1]) {
    clock.advance(ms)
    await setImmediate()
  }
  await loop.stop()
  assert.deepEqual(stepsAtMs, [10_000, 10_020, 10_040, 20_040, 30_040, 30_060, 40_060])
  assert.equal(errors.length, 1)
})
