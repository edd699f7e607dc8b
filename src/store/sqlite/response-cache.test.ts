import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { ResponseIndex } from './response-cache.ts'

const NOW_MS = 1_800_000_000_000
const fingerprint = () => randomBytes(17).toString('base64url').slice(0, 22)

test('finds what was set until its time, the later row first', () => {
  const index = new ResponseIndex()
  const one = fingerprint()
  assert.equal(index.find(one, NOW_MS), null)
  index.set(one, 7, NOW_MS + 5000, NOW_MS)
  assert.equal(index.find(one, NOW_MS + 4999), 7)
  assert.equal(index.find(one, NOW_MS + 5000), null)
  index.set(one, 9, NOW_MS + 6000, NOW_MS)
  assert.equal(index.find(one, NOW_MS), 9)
  assert.equal(index.find(fingerprint(), NOW_MS), null)
})

test('agrees with a plain map through growth and expiry', () => {
  const index = new ResponseIndex()
  const model = new Map<string, { seq: number; untilMs: number }>()
  let nowMs = NOW_MS
  for (let seq = 1; seq <= 100_000; seq++) {
    nowMs += 10
    const one = seq % 10 === 0 ? ([...model.keys()][0] ?? fingerprint()) : fingerprint()
    const untilMs = nowMs + 1000 * (1 + (seq % 300))
    index.set(one, seq, untilMs, nowMs)
    if (seq % 97 === 0) model.set(one, { seq, untilMs })
    else if (model.has(one)) model.set(one, { seq, untilMs })
  }
  for (const [one, { seq, untilMs }] of model) {
    const live = Math.ceil(untilMs / 1000) > Math.floor(nowMs / 1000)
    assert.equal(index.find(one, nowMs), live ? seq : null)
  }
})
