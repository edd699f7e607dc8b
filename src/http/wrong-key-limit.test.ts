import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { WINDOW_MS, WrongKeyLimit } from './wrong-key-limit.ts'

const MAX_FAILURES = 10

test('who sent too many waits until a minute after the first has passed', () => {
  const clock = new FakeClock()
  const wrong = new WrongKeyLimit(clock, MAX_FAILURES)
  wrong.count('192.0.2.1')
  clock.advance(1000)
  for (let sent = 1; sent < MAX_FAILURES; sent++) {
    assert.equal(wrong.waitMs('192.0.2.1'), 0)
    wrong.count('192.0.2.1')
  }
  assert.equal(wrong.waitMs('192.0.2.1'), WINDOW_MS - 1000)
  clock.advance(WINDOW_MS - 1000)
  assert.equal(wrong.waitMs('192.0.2.1'), 0)
})

test('however many addresses there are, only so many are remembered', () => {
  const wrong = new WrongKeyLimit(new FakeClock(), MAX_FAILURES)
  const tooMany = (address: string) => {
    for (let sent = 0; sent < MAX_FAILURES; sent++) wrong.count(address)
  }
  tooMany('192.0.2.1')
  tooMany('192.0.2.2')
  for (let one = 0; one < 9_999; one++) wrong.count(`address ${one}`)
  assert.equal(wrong.waitMs('192.0.2.1'), 0, 'the oldest is forgotten')
  assert.ok(wrong.waitMs('192.0.2.2') > 0)
})
