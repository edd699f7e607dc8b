import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Stop } from './stop.ts'

function listenerOf(told: string[], name: string) {
  return { onStop: () => void told.push(name) }
}

test('tells every listener once, in order, and keeps the first reason', () => {
  const stop = new Stop()
  const told: string[] = []
  stop.listen(listenerOf(told, 'a'))
  stop.listen(listenerOf(told, 'b'))
  assert.equal(stop.reason, null)
  stop.now('deadline')
  stop.now('release')
  assert.deepEqual(told, ['a', 'b'])
  assert.equal(stop.reason, 'deadline')
})

test('does not tell who listens no more, nor who begins to listen when it has stopped', () => {
  const stop = new Stop()
  const told: string[] = []
  const gone = listenerOf(told, 'gone')
  stop.listen(gone)
  stop.unlisten(gone)
  stop.now('release')
  stop.listen(listenerOf(told, 'late'))
  stop.now('release')
  assert.deepEqual(told, [])
})

test('a listener that another one takes off while they are told is not told', () => {
  const stop = new Stop()
  const told: string[] = []
  const second = listenerOf(told, 'second')
  stop.listen({ onStop: () => stop.unlisten(second) })
  stop.listen(second)
  stop.now('release')
  assert.deepEqual(told, [])
})
