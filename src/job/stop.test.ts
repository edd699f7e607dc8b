import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Stop } from './stop.ts'

function listenerOf(notified: string[], name: string) {
  return { onStop: () => void notified.push(name) }
}

test('calls every listener once, in order, and keeps the first reason', () => {
  const stop = new Stop()
  const notified: string[] = []
  stop.listen(listenerOf(notified, 'a'))
  stop.listen(listenerOf(notified, 'b'))
  assert.equal(stop.reason, null)
  stop.now('timeout')
  stop.now('release')
  assert.deepEqual(notified, ['a', 'b'])
  assert.equal(stop.reason, 'timeout')
})

test('does not call removed listeners, nor listeners that are added after the stop', () => {
  const stop = new Stop()
  const notified: string[] = []
  const gone = listenerOf(notified, 'gone')
  stop.listen(gone)
  stop.unlisten(gone)
  stop.now('release')
  stop.listen(listenerOf(notified, 'late'))
  stop.now('release')
  assert.deepEqual(notified, [])
})

test('a listener that another one removes during the calls is not called', () => {
  const stop = new Stop()
  const notified: string[] = []
  const second = listenerOf(notified, 'second')
  stop.listen({ onStop: () => stop.unlisten(second) })
  stop.listen(second)
  stop.now('release')
  assert.deepEqual(notified, [])
})
