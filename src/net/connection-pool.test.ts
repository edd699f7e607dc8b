import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { KEEP, startPoster } from '../../test/support/poster.ts'
import { KEPT_AGE_MS } from './connection-pool.ts'

const NAMED = { resolve: async () => ['127.0.0.1'] }

test('one callback after the other goes over one connection, which is not opened or resolved again', async (t) => {
  let questions = 0
  const { receiver, post } = await startPoster(t, {
    resolve: async () => {
      questions += 1
      return ['127.0.0.1']
    },
  })
  const url = `http://hooks.example.com:${receiver.port}/`
  for (let count = 0; count < 50; count += 1) assert.equal((await post({ url })).kind, 'answered')
  assert.equal(receiver.connections(), 1)
  assert.equal(questions, 1)
})

test('connections are not shared between origins', async (t) => {
  const { receiver, post } = await startPoster(t, NAMED)
  for (const name of ['a.example', 'b.example', 'a.example', 'b.example']) {
    await post({ url: `http://${name}:${receiver.port}/` })
  }
  assert.deepEqual(
    receiver.requests.map(({ connection }) => connection),
    [1, 2, 1, 2],
  )
})

test('a connection that the receiver closes is not used again', async (t) => {
  const { receiver, post } = await startPoster(t)
  receiver.script({ kind: 'answer', headers: { connection: 'close' } })
  await post()
  await post()
  assert.equal(receiver.connections(), 2)
  assert.equal(receiver.requests.length, 2)
})

test('a kept connection that breaks at its next use is replaced once by a new one', async (t) => {
  const { receiver, post } = await startPoster(t)
  receiver.script({ kind: 'answer' }, { kind: 'reset', when: 'before' })
  assert.equal((await post()).kind, 'answered')
  assert.equal((await post()).kind, 'answered')
  assert.deepEqual(
    receiver.requests.map(({ connection }) => connection),
    [1, 1, 2],
  )
  receiver.script({ kind: 'reset', when: 'before' }, { kind: 'reset', when: 'before' })
  assert.equal((await post()).kind, 'failed')
  assert.equal(receiver.requests.length, 5)
})

test('an old connection gives way to a new one', async (t) => {
  const clock = new FakeClock()
  const { receiver, post } = await startPoster(t, { clock })
  await post()
  clock.advance(KEPT_AGE_MS - 1)
  await post()
  assert.equal(receiver.connections(), 1)
  clock.advance(1)
  await post()
  assert.equal(receiver.connections(), 2)
})

test('no more than so many connections to an origin are kept', async (t) => {
  const { receiver, post, openSockets } = await startPoster(t)
  const count = KEEP.perOrigin + 5
  receiver.script(...Array.from({ length: count }, () => ({ kind: 'stall' }) as const))
  const posts = Array.from({ length: count }, () => post())
  await receiver.received(count)
  assert.equal(receiver.open(), count)
  receiver.release()
  await Promise.all(posts)
  assert.equal(openSockets(), KEEP.perOrigin)
})

test('no more than so many connections in all are kept: the origin unused for longest loses its own', async (t) => {
  const { receiver, post, openSockets } = await startPoster(t, NAMED)
  const to = (index: number) => post({ url: `http://hooks-${index}.example:${receiver.port}/` })
  await Promise.all([to(0), to(0)])
  for (let index = 1; index < KEEP.total - 1; index += 1) await to(index)
  await to(0)
  assert.equal(receiver.connections(), KEEP.total)
  await to(KEEP.total)
  assert.equal(openSockets(), KEEP.total)
  await to(0)
  assert.equal(receiver.connections(), KEEP.total + 1, 'the first origin was used lately')
  await to(1)
  assert.equal(receiver.connections(), KEEP.total + 2, 'the second had to go')
})
