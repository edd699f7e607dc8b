/** How the limit of calls finds what a server can serve. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ConcurrencyLimit, START_CONCURRENCY } from './concurrency-limit.ts'

function fillWindows(limit: ConcurrencyLimit, count: number): void {
  for (let window = 0; window < count; window++) {
    const calls = limit.limit
    const begun = limit.changes
    for (let n = 0; n < calls; n++) limit.succeeded(begun, true)
  }
}

test('doubles after each full window of successes, up to the ceiling', () => {
  const limit = new ConcurrencyLimit(100, START_CONCURRENCY)
  const seen = Array.from({ length: 6 }, () => {
    const now = limit.limit
    fillWindows(limit, 1)
    return now
  })
  assert.deepEqual(seen, [8, 16, 32, 64, 100, 100])
})

test('stays where it is while it keeps nothing waiting', () => {
  const limit = new ConcurrencyLimit(100, 8)
  for (let n = 0; n < 1000; n++) limit.succeeded(limit.changes, false)
  assert.equal(limit.limit, 8)
})

test('halves once for calls that fail together, and down to one', () => {
  const limit = new ConcurrencyLimit(100, 8)
  const begun = limit.changes
  for (let n = 0; n < 8; n++) assert.equal(limit.overloaded(begun), true)
  assert.equal(limit.limit, 4)
  for (let n = 0; n < 5; n++) limit.overloaded(limit.changes)
  assert.equal(limit.limit, 1)
})

test('blames a call that fails at a limit which has been served before', () => {
  const limit = new ConcurrencyLimit(8, 8)
  fillWindows(limit, 1)
  assert.equal(limit.overloaded(limit.changes), false)
  assert.equal(limit.limit, 4)
  assert.equal(limit.overloaded(limit.changes), false)
})

test('goes back to where it failed eight times as slowly', () => {
  const limit = new ConcurrencyLimit(100, 8)
  limit.overloaded(limit.changes)
  fillWindows(limit, 7)
  assert.equal(limit.limit, 4)
  fillWindows(limit, 1)
  assert.equal(limit.limit, 8)
})

test('starts where the configuration says, and never changes without a start', () => {
  assert.equal(new ConcurrencyLimit(32, 32).limit, 32)
  assert.equal(new ConcurrencyLimit(4, 8).limit, 4)
  const fixed = new ConcurrencyLimit(256, null)
  assert.equal(fixed.overloaded(fixed.changes), false)
  assert.equal(fixed.limit, 256)
})
