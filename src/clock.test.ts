/** Durations in whole milliseconds, and timers of any length. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { systemClock, wholeMs } from './clock.ts'

test('a duration is a whole number of milliseconds that can be added to any moment', () => {
  assert.deepEqual([300.0001, 1.001, 0.0004, 0].map(wholeMs), [300_000, 1001, 0, 0])
  assert.ok(Number.isSafeInteger(Date.now() + wholeMs(1e300)))
})

test('a timer that is longer than the platform can wait does not fire at once', async () => {
  const fired: string[] = []
  const cancel = systemClock.after(2 ** 40, () => fired.push('long'))
  await new Promise<void>((resolve) => {
    setTimeout(resolve, 2)
  })
  cancel()
  assert.deepEqual(fired, [])
})
