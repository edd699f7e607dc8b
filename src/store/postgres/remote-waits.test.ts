import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RemoteWaits } from './remote-waits.ts'

test('every node that announced a wait for a job is returned once', () => {
  const waits = new RemoteWaits(() => 0)
  assert.deepEqual(waits.add('n1', ['a', 'b']), [])
  waits.add('n2', ['a'])
  waits.add('n2', ['a'])
  assert.deepEqual([...waits.end('a')], ['n1', 'n2'])
  assert.deepEqual([...waits.end('a')], [])
  assert.deepEqual([...waits.end('b')], ['n1'])
})

test('an announcement of a job that ended just before it is answered at once', () => {
  const waits = new RemoteWaits(() => 0)
  waits.end('a')
  assert.deepEqual(waits.add('n1', ['a', 'b']), ['a'])
  assert.equal(waits.size, 1)
  for (let index = 0; index < 1023; index++) waits.end(`job ${index}`)
  assert.deepEqual(waits.add('n1', ['a']), ['a'])
  waits.end('one more')
  assert.deepEqual(waits.add('n1', ['a', 'one more']), ['one more'])
})

test('waits that are over and the oldest of too many are forgotten', () => {
  let nowMs = 0
  const waits = new RemoteWaits(() => nowMs, 3)
  waits.add('n1', ['a', 'b'])
  nowMs = 100_000
  waits.add('n1', ['a'])
  nowMs = 130_000
  waits.add('n1', ['c'])
  assert.equal(waits.size, 2)
  assert.deepEqual([...waits.end('b')], [])
  waits.add('n1', ['d', 'e', 'f'])
  assert.equal(waits.size, 3)
  assert.deepEqual([...waits.end('c')], [])
  assert.deepEqual([...waits.end('f')], ['n1'])
})
