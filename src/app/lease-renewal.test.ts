/** Tests when an event loop counts as hung. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LoopWatch, REPORT_EVERY_MS } from './lease-renewal.ts'

const HANG_MS = 10_000

/** Checks every second until the watch finds a hang. Returns after how many milliseconds it did. */
function hangFoundAfterMs(watch: LoopWatch, reports: number, fromMs: number): number {
  for (let passedMs = REPORT_EVERY_MS; passedMs < 100 * HANG_MS; passedMs += REPORT_EVERY_MS) {
    if (watch.hangs(reports, fromMs + passedMs)) return passedMs
  }
  throw new Error('the watch finds no hang')
}

test('a loop that stops to report hangs after the limit, counted from its last report', () => {
  const watch = new LoopWatch(HANG_MS, 0)
  for (let second = 1; second <= 60; second++) assert.equal(watch.hangs(second, second * 1000), false)
  assert.equal(hangFoundAfterMs(watch, 60, 60_000), HANG_MS)
})

test('a loop that reports again in time starts over', () => {
  const watch = new LoopWatch(HANG_MS, 0)
  for (let second = 1; second < 10; second++) assert.equal(watch.hangs(0, second * 1000), false)
  assert.equal(watch.hangs(1, 10_000), false)
  assert.equal(hangFoundAfterMs(watch, 1, 10_000), HANG_MS)
})

test('time in which the whole process was stopped does not count', () => {
  const watch = new LoopWatch(HANG_MS, 0)
  assert.equal(watch.hangs(1, 1000), false)
  // The process was stopped for an hour. The watch checks before the loop has reported again.
  assert.equal(watch.hangs(1, 3_601_000), false)
  assert.equal(hangFoundAfterMs(watch, 1, 3_601_000), HANG_MS - 2 * REPORT_EVERY_MS)
})
