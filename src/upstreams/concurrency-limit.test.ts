/** Tests how the limit of concurrent calls adapts to what a server can handle, and when an account's calls lower it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FairSlots } from '../sharing/fair-slots.ts'
import { ConcurrencyLimit, freeCalls, OVERLOAD_MS, START_CONCURRENCY } from './concurrency-limit.ts'

function start(ceiling: number, startLimit: number | null = ceiling) {
  const limits = new ConcurrencyLimit(ceiling, startLimit)
  const slots = new FairSlots(limits)
  const fillWindow = (account: string, nowMs = 0) => {
    const { limit: calls, changes: begun } = limits
    for (let n = 0; n < calls; n++) assert.ok(slots.tryAcquire(account))
    for (let n = 0; n < calls; n++) limits.succeeded(account, begun, nowMs, slots)
    for (let n = 0; n < calls; n++) slots.release(account)
  }
  const succeed = (account: string, nowMs = 0) => limits.succeeded(account, limits.changes, nowMs, slots)
  const overload = (account: string, nowMs = 0) => limits.overloaded(account, limits.changes, nowMs)
  return { limits, slots, fillWindow, succeed, overload }
}

test('doubles after each full window of successes, up to the ceiling', () => {
  const { limits, fillWindow } = start(100, START_CONCURRENCY)
  const seen = Array.from({ length: 6 }, () => {
    const now = limits.limit
    fillWindow('a')
    return now
  })
  assert.deepEqual(seen, [8, 16, 32, 64, 100, 100])
})

test('stays where it is while it keeps nothing waiting', () => {
  const { limits, succeed } = start(100, 8)
  for (let n = 0; n < 1000; n++) succeed('a')
  assert.equal(limits.limit, 8)
})

test('halves once for calls that fail together, and down to one', () => {
  const { limits, overload } = start(100, 8)
  const begun = limits.changes
  for (let n = 0; n < 8; n++) assert.equal(limits.overloaded('a', begun, 0), true)
  assert.equal(limits.limit, 4)
  for (let n = 0; n < 5; n++) overload('a')
  assert.equal(limits.limit, 1)
})

test('300 overloads of one account leave the limit as it is while calls of others succeed', () => {
  const { limits, overload, succeed } = start(256)
  for (let n = 0; n < 300; n++) {
    if (n % 100 === 0) succeed('b', n * 100)
    overload('a', n * 100)
  }
  assert.equal(limits.limit, 256)
})

test('what an account lowered that called alone returns with a success of another one within a minute', () => {
  for (const [laterMs, limit] of [
    [OVERLOAD_MS, 256],
    [OVERLOAD_MS + 1, 16],
  ] as const) {
    const { limits, overload, succeed } = start(256)
    for (let n = 0; n < 4; n++) overload('a')
    succeed('a')
    assert.equal(limits.limit, 16)
    succeed('b', laterMs)
    assert.equal(limits.limit, limit)
  }
})

test('a success of another account never lowers a limit that has grown since', () => {
  const { limits, fillWindow, overload, succeed } = start(256, 8)
  overload('a')
  while (limits.limit < 16) fillWindow('a')
  succeed('b')
  assert.equal(limits.limit, 16)
})

test('a limit at which two accounts saw an overload does not return with a success', () => {
  for (const begunOfSecond of [0, 1]) {
    const { limits, overload, succeed } = start(256)
    overload('a')
    limits.overloaded('b', begunOfSecond, 0)
    succeed('a')
    succeed('b')
    assert.equal(limits.limit, 128)
  }
})

for (const [what, laterMs, limit] of [
  ['at once', 0, 4],
  ['within a minute', OVERLOAD_MS, 4],
  ['later', OVERLOAD_MS + 1, 8],
] as const) {
  test(`the limit after two accounts saw an overload, the second one ${what}: ${limit}`, () => {
    const { limits, overload, succeed } = start(8)
    succeed('b')
    overload('a')
    succeed('a', laterMs)
    overload('b', laterMs)
    assert.equal(limits.limit, limit)
    overload('b', laterMs)
    assert.equal(limits.limit, limit, 'the same account again')
  })
}

test('what can start are the free slots and an eighth more, less the calls that wait', () => {
  const { slots } = start(16)
  const never = { reason: null, listen: () => {}, unlisten: () => {}, pause: () => {}, resume: () => {} }
  assert.equal(freeCalls(slots), 16 + 2)
  for (let n = 0; n < 17; n++) void slots.acquire('a', 1, never)
  assert.equal(freeCalls(slots), 1)
})

test('grows back eight times as slowly', () => {
  const { limits, fillWindow, overload } = start(8)
  overload('a')
  for (let window = 0; window < 7; window++) fillWindow('a')
  assert.equal(limits.limit, 4)
  fillWindow('a')
  assert.equal(limits.limit, 8)
})

test('is zero while the slots are blocked', () => {
  const { limits, overload } = start(8)
  limits.block(true)
  overload('a')
  assert.equal(limits.limit, 0)
  limits.block(true)
  limits.block(false)
  assert.equal(limits.limit, 0)
  limits.block(false)
  assert.equal(limits.limit, 4)
})

test('blames a call that fails at a limit which has been served before', () => {
  const { fillWindow, overload } = start(8)
  fillWindow('a')
  assert.equal(overload('a'), false)
  assert.equal(overload('a'), false)
  assert.equal(overload('b'), false)
})

test('finds the single slot of a server for one account as for several', () => {
  for (const accounts of [['a'], ['a', 'b', 'c']]) {
    const { limits, overload } = start(256, START_CONCURRENCY)
    for (let round = 0; round < 4; round++) for (const account of accounts) overload(account, round)
    assert.equal(limits.limit, 1)
  }
})

test('starts where the configuration says, and never changes without a start', () => {
  assert.equal(start(32).limits.limit, 32)
  assert.equal(start(4, 8).limits.limit, 4)
  const { limits, overload } = start(256, null)
  assert.equal(overload('a'), false)
  assert.equal(limits.limit, 256)
})

test('successes of calls from before a change do not raise the new limit', () => {
  const { limits, slots, overload } = start(100, 8)
  const begun = limits.changes
  overload('a')
  for (let n = 0; n < 4; n++) assert.ok(slots.tryAcquire('a'))
  for (let n = 0; n < 100; n++) limits.succeeded('a', begun, 0, slots)
  assert.equal(limits.limit, 4)
})
