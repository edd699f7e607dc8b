/** Tests durations in whole milliseconds, and timers of any length. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../test/fake-clock.ts'
import { sharedMoments, systemClock, wholeMs } from './clock.ts'

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

test('polls of different lengths share the moments of one timer, none more than half a second off', () => {
  const clock = new FakeClock()
  const about = sharedMoments(clock)
  clock.advance(130)
  const fired: string[] = []
  const cancels = [500, 999, 1000, 1400, 3333].map((ms) =>
    about(ms, () => fired.push(`${ms} at ${clock.steadyMs()}`)),
  )
  assert.deepEqual(clock.pending(), [370, 870, 1870, 2870])
  cancels[3]?.()
  clock.advance(10_000)
  assert.deepEqual(fired, ['500 at 500', '999 at 1000', '1000 at 1000', '3333 at 3000'])
  assert.deepEqual(clock.pending(), [])
})

test('what is cancelled by another callback of its moment is not called', () => {
  const clock = new FakeClock()
  const about = sharedMoments(clock)
  const fired: string[] = []
  about(1000, () => {
    fired.push('first')
    cancel()
  })
  const cancel = about(1000, () => fired.push('second'))
  clock.advance(1000)
  assert.deepEqual(fired, ['first'])
})

test('a short pause is exact', () => {
  const clock = new FakeClock()
  clock.advance(7)
  sharedMoments(clock)(20, () => {})
  assert.deepEqual(clock.pending(), [20])
})
