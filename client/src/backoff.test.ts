import assert from 'node:assert/strict'
import { test } from 'node:test'
import { backoffMs, retryAfterS } from './backoff.ts'

test('pauses double up to eight seconds, and are shortened by no more than a half', () => {
  const longest = [1, 2, 3, 4, 5, 6, 60].map((failures) => backoffMs(failures, undefined, () => 0))
  assert.deepEqual(longest, [500, 1000, 2000, 4000, 8000, 8000, 8000])
  assert.equal(
    backoffMs(1, undefined, () => 1),
    250,
  )
})

test('Retry-After is never undercut', () => {
  assert.equal(
    backoffMs(1, 40, () => 1),
    40_000,
  )
  assert.equal(
    backoffMs(5, 1, () => 0),
    8000,
  )
})

test('Retry-After is seconds or a date', () => {
  const nowMs = Date.UTC(2026, 0, 2, 3, 4, 5)
  assert.equal(retryAfterS('7', nowMs), 7)
  assert.equal(retryAfterS('Fri, 02 Jan 2026 03:05:05 GMT', nowMs), 60)
  assert.equal(retryAfterS('Fri, 02 Jan 2026 03:00:00 GMT', nowMs), 0)
  for (const header of [null, '', 'soon']) assert.equal(retryAfterS(header, nowMs), undefined)
})
