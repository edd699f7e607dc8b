import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { MinuteCounter, WINDOW_MS } from './minute-counter.ts'

const MOST = 10

test('a key with too many events waits until a minute after the first has passed', () => {
  const clock = new FakeClock()
  const counter = new MinuteCounter(clock)
  counter.add('one')
  clock.advance(1000)
  for (let sent = 1; sent < MOST; sent++) {
    assert.equal(counter.waitMs('one', MOST), 0)
    counter.add('one')
  }
  assert.equal(counter.waitMs('one', MOST), WINDOW_MS - 1000)
  assert.equal(counter.waitMs('other', MOST), 0)
  clock.advance(WINDOW_MS - 1000)
  assert.equal(counter.waitMs('one', MOST), 0)
})

test('however many keys there are, only so many are remembered, those whose minute began last', () => {
  const clock = new FakeClock()
  const counter = new MinuteCounter(clock, 100)
  counter.add('ended')
  clock.advance(WINDOW_MS)
  for (const key of ['ended', 'first', 'second']) counter.add(key, MOST)
  for (let one = 0; one < 98; one++) counter.add(`key ${one}`)
  assert.equal(counter.waitMs('ended', MOST), 0, 'the oldest is forgotten')
  assert.ok(counter.waitMs('first', MOST) > 0)
  counter.add('key 98')
  assert.equal(counter.waitMs('first', MOST), 0)
  assert.ok(counter.waitMs('second', MOST) > 0)
})
