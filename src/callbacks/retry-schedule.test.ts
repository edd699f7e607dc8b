import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { PostResult } from '../net/post.ts'
import { maxOwedMs, nextAttempt } from './retry-schedule.ts'

const NOW_MS = Date.now()
const DAY_MS = 86_400_000
const PAUSES_S = [0, 5, 300]

test('the response of the receiver decides when the next attempt is made', () => {
  const answered = (status: number, retryAfterMs: number | null = null): PostResult => ({
    kind: 'answered',
    status,
    retryAfterMs,
    bodyStart: '',
    ms: 1,
  })
  const failed: PostResult = { kind: 'failed', message: 'reset', ms: 1 }
  const after = (result: PostResult, attempt = 1, random = 0.5) => {
    const next = nextAttempt(result, attempt, PAUSES_S, random, NOW_MS)
    return next.kind === 'due' ? next.atMs - NOW_MS : next.kind
  }
  assert.equal(after(answered(200)), 'delivered')
  assert.equal(after(answered(204)), 'delivered')
  assert.equal(after(answered(301)), 5000)
  assert.equal(after(answered(404)), 5000)
  assert.equal(after(answered(410)), 'failed')
  assert.equal(after(answered(500, 60_000)), 5000)
  assert.equal(after(answered(503, 60_000)), 60_000)
  assert.equal(after(answered(429, 1000)), 5000)
  assert.equal(after(failed), 5000)
  assert.equal(after(failed, 2), 300_000)
  assert.equal(after(failed, 3), 'failed')
  assert.equal(after(failed, 1, 0), 4000)
  assert.equal(after(failed, 1, 0.999999), 6000)
})

test('a callback is owed for as long as its schedule takes, and for at least a day', () => {
  assert.equal(maxOwedMs(PAUSES_S), DAY_MS)
  assert.equal(maxOwedMs([0, 5, 86_395]), DAY_MS * 1.2)
})
