import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { PostResult } from '../net/post.ts'
import { Counts } from '../sharing/counts.ts'
import { type Health, healthOf, type Receiver, Receivers } from './receiver-limit.ts'

const URL_A = 'https://a.example.com/hook'
const MAX_LIMIT = 8

function start() {
  const inUse = new Counts<Receiver>()
  return { inUse, receivers: new Receivers(MAX_LIMIT, inUse) }
}

/** Ends as many attempts as the receiver has capacity for, each with this result. */
function learnFromAll(receiver: Receiver, health: Health): void {
  for (let left = receiver.limit; left > 0; left--) receiver.learn(health)
}

test('a new receiver gets few attempts, and one more for each that it copes with, up to the limit', () => {
  const receiver = start().receivers.of('acme', URL_A)
  const limits = [receiver.limit]
  for (let round = 0; round < 4; round++) {
    learnFromAll(receiver, 'coping')
    limits.push(receiver.limit)
  }
  assert.deepEqual(limits, [2, 4, 8, 8, 8])
})

test('each attempt that a receiver does not cope with halves its limit, down to that of a new receiver', () => {
  const receiver = start().receivers.of('acme', URL_A)
  for (let round = 0; round < 3; round++) learnFromAll(receiver, 'coping')
  const limits = [receiver.limit]
  for (let round = 0; round < 3; round++) {
    receiver.learn('overloaded')
    receiver.learn('unknown')
    limits.push(receiver.limit)
  }
  assert.deepEqual(limits, [8, 4, 2, 2])
})

test('the status of a response shows whether the receiver copes', () => {
  const answered = (status: number) =>
    healthOf({ kind: 'answered', status, retryAfterMs: null, bodyStart: '', ms: 1 })
  assert.deepEqual([200, 301, 404, 410, 500].map(answered), Array(5).fill('coping'))
  assert.deepEqual([408, 429, 502, 503, 504].map(answered), Array(5).fill('overloaded'))
  const without = (kind: 'failed' | 'refused'): PostResult => ({ kind, message: '', ms: 1 })
  assert.equal(healthOf(without('failed')), 'overloaded')
  assert.equal(healthOf(without('refused')), 'unknown')
})

test('what one account learns about an origin does not affect another account or another port', () => {
  const { receivers } = start()
  const theirs = receivers.of('other', URL_A)
  const ours = receivers.of('acme', URL_A)
  for (let failed = 0; failed < 2; failed++) theirs.learn('overloaded')
  assert.deepEqual([theirs.isFailing, ours.isFailing, ours.isProven], [true, false, false])
  assert.equal(ours.origin, theirs.origin)
  assert.notEqual(receivers.of('acme', 'https://a.example.com:8443/hook').origin, ours.origin)
})

test('callbacks of an account to one origin have the same receiver, whatever the path', () => {
  const { receivers } = start()
  assert.equal(receivers.of('acme', URL_A), receivers.of('acme', 'https://a.example.com/other?x'))
})

test('a receiver is failing after two failures in a row, until it copes with an attempt', () => {
  const receiver = start().receivers.of('acme', URL_A)
  const states = (['coping', 'overloaded', 'overloaded', 'coping'] as const).map((health) => {
    receiver.learn(health)
    return [receiver.isProven, receiver.isFailing]
  })
  assert.deepEqual(states, [
    [true, false],
    [false, false],
    [false, true],
    [true, false],
  ])
})

test('receivers that are no longer used are forgotten, except those with attempts in progress', () => {
  const { receivers, inUse } = start()
  const used = receivers.of('acme', URL_A)
  inUse.add(used, 1)
  const idle = receivers.of('acme', 'https://b.example.com/')
  for (let other = 0; other < 10_100; other++) receivers.of('acme', `https://h${other}.example.com/`)
  assert.equal(receivers.of('acme', URL_A), used)
  assert.notEqual(receivers.of('acme', 'https://b.example.com/'), idle)
})
