import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'node:test'
import { onAbort } from './on-abort.ts'

test('however many wait, the signal has one listener, and none when nobody waits any longer', () => {
  const { signal } = new AbortController()
  const listeners = () => getEventListeners(signal, 'abort').length
  const callback = () => {}
  const undos = Array.from({ length: 50 }, () => onAbort(signal, callback))
  assert.equal(listeners(), 1)
  for (const undo of undos.slice(1)) undo()
  assert.equal(listeners(), 1)
  undos[0]?.()
  undos[0]?.()
  assert.equal(listeners(), 0)
  onAbort(signal, callback)
  assert.equal(listeners(), 1)
})

test('all who wait are called once, in order, and those who left are not', () => {
  const controller = new AbortController()
  const called: number[] = []
  const undos = [0, 1, 2].map((index) => onAbort(controller.signal, () => called.push(index)))
  undos[1]?.()
  controller.abort()
  assert.deepEqual(called, [0, 2])
  onAbort(undefined, () => assert.fail('there is nothing to hear of'))()
})
