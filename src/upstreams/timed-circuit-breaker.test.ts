import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { FAILURES_TO_OPEN, FIRST_OPEN_MS, MAX_OPEN_MS, TimedCircuitBreaker } from './timed-circuit-breaker.ts'

function openedBreaker(clock: FakeClock): TimedCircuitBreaker {
  const breaker = new TimedCircuitBreaker(clock)
  for (let n = 0; n < FAILURES_TO_OPEN; n++) breaker.release(breaker.acquire() ?? 'forced', 'failure', null)
  return breaker
}

describe('a circuit breaker', () => {
  it('opens after the configured number of consecutive failures, and reports until when', () => {
    const clock = new FakeClock()
    clock.advance(10_000)
    const breaker = new TimedCircuitBreaker(clock)
    for (let n = 1; n < FAILURES_TO_OPEN; n++) breaker.release('normal', 'failure', null)
    breaker.release('normal', 'success', null)
    for (let n = 1; n < FAILURES_TO_OPEN; n++) breaker.release('normal', 'failure', null)
    assert.equal(breaker.isOpen, false)
    assert.equal(breaker.openUntilMs, null)
    breaker.release('normal', 'failure', null)
    assert.equal(breaker.isOpen, true)
    assert.equal(breaker.acquire(), null)
    assert.equal(breaker.openUntilMs, clock.nowMs() + FIRST_OPEN_MS)
    clock.jump(3_600_000)
    assert.equal(breaker.isOpen, true, 'a jump of the wall clock has no effect')
  })

  it('permits exactly one probe when it is half-open', () => {
    const clock = new FakeClock()
    const breaker = openedBreaker(clock)
    clock.advance(FIRST_OPEN_MS)
    assert.equal(breaker.isOpen, false)
    assert.equal(breaker.acquire(), 'probe')
    assert.equal(breaker.isOpen, true)
    assert.equal(breaker.acquire(), null)
    breaker.release('probe', 'success', null)
    assert.equal(breaker.acquire(), 'normal')
    assert.equal(breaker.consecutiveFailures, 0)
  })

  it('stays open twice as long after each failed probe, up to the maximum', () => {
    const clock = new FakeClock()
    const breaker = openedBreaker(clock)
    let expected = FIRST_OPEN_MS
    for (let n = 0; n < 8; n++) {
      clock.advance(expected - 1)
      assert.equal(breaker.acquire(), null)
      clock.advance(1)
      assert.equal(breaker.acquire(), 'probe')
      breaker.release('probe', 'failure', null)
      expected = Math.min(expected * 2, MAX_OPEN_MS)
    }
  })

  it('does not stay open longer when calls that began before it opened fail too', () => {
    const clock = new FakeClock()
    const breaker = openedBreaker(clock)
    clock.advance(FIRST_OPEN_MS - 1)
    breaker.release('normal', 'failure', null)
    breaker.release('forced', 'failure', null)
    clock.advance(1)
    assert.equal(breaker.acquire(), 'probe')
  })

  it('permits another probe when we aborted the first one', () => {
    const clock = new FakeClock()
    const breaker = openedBreaker(clock)
    clock.advance(FIRST_OPEN_MS)
    assert.equal(breaker.acquire(), 'probe')
    breaker.release('probe', 'ignored', null)
    assert.equal(breaker.acquire(), 'probe')
  })

  it('opens at once for Retry-After, and closes when a call succeeds', () => {
    const clock = new FakeClock()
    const breaker = new TimedCircuitBreaker(clock)
    breaker.release('normal', 'failure', 20_000)
    assert.equal(breaker.openUntilMs, clock.nowMs() + 20_000)
    breaker.release('normal', 'failure', 3_000)
    assert.equal(breaker.openUntilMs, clock.nowMs() + 20_000)
    breaker.release('forced', 'success', null)
    assert.equal(breaker.isOpen, false)
  })
})
