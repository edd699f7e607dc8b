import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { IDLE_LIMITS, startPoster } from '../../test/support/callback-poster.ts'
import { MAX_CONNECTION_AGE_MS } from './connection-pool.ts'

const RESOLVED = { resolve: async () => ['127.0.0.1'] }

test('callbacks in sequence share one connection and one lookup', async (t) => {
  let lookups = 0
  const { receiver, answer } = await startPoster(t, {
    resolve: async () => {
      lookups += 1
      return ['127.0.0.1']
    },
  })
  const url = `http://hooks.example.com:${receiver.port}/`
  for (let count = 0; count < 50; count += 1) await answer({ url })
  assert.equal(receiver.connections(), 1)
  assert.equal(lookups, 1)
})

test('connections are not shared between origins', async (t) => {
  const { receiver, post } = await startPoster(t, RESOLVED)
  for (const name of ['a.example', 'b.example', 'a.example', 'b.example']) {
    await post({ url: `http://${name}:${receiver.port}/` })
  }
  assert.deepEqual(
    receiver.requests.map(({ connection }) => connection),
    [1, 2, 1, 2],
  )
})

test('a connection that the receiver closes is not reused', async (t) => {
  const { receiver, post } = await startPoster(t)
  receiver.script({ kind: 'answer', headers: { connection: 'close' } })
  await post()
  await post()
  assert.equal(receiver.connections(), 2)
  assert.equal(receiver.requests.length, 2)
})

test('an idle connection that fails at its next use is replaced once by a new one', async (t) => {
  const { receiver, answer, failure } = await startPoster(t)
  receiver.script({ kind: 'answer' }, { kind: 'reset', when: 'before' })
  await answer()
  await answer()
  assert.deepEqual(
    receiver.requests.map(({ connection }) => connection),
    [1, 1, 2],
  )
  receiver.script({ kind: 'reset', when: 'before' }, { kind: 'reset', when: 'before' })
  await failure()
  assert.equal(receiver.requests.length, 5)
})

test('a connection is replaced when it has reached its maximum age', async (t) => {
  const clock = new FakeClock()
  const { receiver, post } = await startPoster(t, { clock })
  await post()
  clock.advance(MAX_CONNECTION_AGE_MS - 1)
  await post()
  assert.equal(receiver.connections(), 1)
  clock.advance(1)
  await post()
  assert.equal(receiver.connections(), 2)
})

test('idle connections to one origin are limited', async (t) => {
  const { receiver, openSockets, post } = await startPoster(t)
  const count = IDLE_LIMITS.perOrigin + 5
  receiver.script(...Array.from({ length: count }, () => ({ kind: 'stall' }) as const))
  const posts = Array.from({ length: count }, () => post())
  await receiver.received(count)
  assert.equal(receiver.open(), count)
  receiver.release()
  await Promise.all(posts)
  assert.equal(openSockets(), IDLE_LIMITS.perOrigin)
})

test('idle connections are limited in total: the least recently used origin loses one', async (t) => {
  const { receiver, openSockets, post } = await startPoster(t, RESOLVED)
  const to = (index: number) => post({ url: `http://hooks-${index}.example:${receiver.port}/` })
  await Promise.all([to(0), to(0)])
  for (let index = 1; index < IDLE_LIMITS.total - 1; index += 1) await to(index)
  await to(0)
  assert.equal(receiver.connections(), IDLE_LIMITS.total)
  await to(IDLE_LIMITS.total)
  assert.equal(openSockets(), IDLE_LIMITS.total)
  await to(0)
  assert.equal(receiver.connections(), IDLE_LIMITS.total + 1, 'the first origin was used recently')
  await to(1)
  assert.equal(receiver.connections(), IDLE_LIMITS.total + 2, 'the second was the least recently used')
})
