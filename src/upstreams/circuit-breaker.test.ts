import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { CircuitBreaker, FAILURES_TO_SKIP, FIRST_SKIP_MS, LONGEST_SKIP_MS } from './circuit-breaker.ts'

function broken(clock: FakeClock): CircuitBreaker {
  const breaker = new CircuitBreaker(clock)
  for (let n = 0; n < FAILURES_TO_SKIP; n++) breaker.handBack(breaker.admit() ?? 'forced', 'badly', null)
  return breaker
}

describe('a breaker', () => {
  it('skips a target after so many failures in a row, and says until when', () => {
    const clock = new FakeClock()
    clock.advance(10_000)
    const breaker = new CircuitBreaker(clock)
    for (let n = 1; n < FAILURES_TO_SKIP; n++) breaker.handBack('normal', 'badly', null)
    breaker.handBack('normal', 'well', null)
    for (let n = 1; n < FAILURES_TO_SKIP; n++) breaker.handBack('normal', 'badly', null)
    assert.equal(breaker.skips(), false)
    assert.equal(breaker.skippedUntilMs, null)
    breaker.handBack('normal', 'badly', null)
    assert.equal(breaker.skips(), true)
    assert.equal(breaker.admit(), null)
    assert.equal(breaker.skippedUntilMs, clock.nowMs() + FIRST_SKIP_MS)
    clock.jump(3_600_000)
    assert.equal(breaker.skips(), true, 'a jump of the wall clock changes nothing')
  })

  it('then lets one call probe it, and only one', () => {
    const clock = new FakeClock()
    const breaker = broken(clock)
    clock.advance(FIRST_SKIP_MS)
    assert.equal(breaker.skips(), false)
    assert.equal(breaker.admit(), 'probe')
    assert.equal(breaker.skips(), true)
    assert.equal(breaker.admit(), null)
    breaker.handBack('probe', 'well', null)
    assert.equal(breaker.admit(), 'normal')
    assert.equal(breaker.failuresInRow, 0)
  })

  it('skips twice as long after each failed probe, up to a bound', () => {
    const clock = new FakeClock()
    const breaker = broken(clock)
    let expected = FIRST_SKIP_MS
    for (let n = 0; n < 8; n++) {
      clock.advance(expected - 1)
      assert.equal(breaker.admit(), null)
      clock.advance(1)
      assert.equal(breaker.admit(), 'probe')
      breaker.handBack('probe', 'badly', null)
      expected = Math.min(expected * 2, LONGEST_SKIP_MS)
    }
  })

  it('does not skip longer because calls from before fail too', () => {
    const clock = new FakeClock()
    const breaker = broken(clock)
    clock.advance(FIRST_SKIP_MS - 1)
    breaker.handBack('normal', 'badly', null)
    breaker.handBack('forced', 'badly', null)
    clock.advance(1)
    assert.equal(breaker.admit(), 'probe')
  })

  it('gives the probe to the next when its call was ended by us', () => {
    const clock = new FakeClock()
    const breaker = broken(clock)
    clock.advance(FIRST_SKIP_MS)
    assert.equal(breaker.admit(), 'probe')
    breaker.handBack('probe', 'undecided', null)
    assert.equal(breaker.admit(), 'probe')
  })

  it('skips at once where the target asks for patience, until something succeeds', () => {
    const clock = new FakeClock()
    const breaker = new CircuitBreaker(clock)
    breaker.handBack('normal', 'badly', 20_000)
    assert.equal(breaker.skippedUntilMs, clock.nowMs() + 20_000)
    breaker.handBack('normal', 'badly', 3_000)
    assert.equal(breaker.skippedUntilMs, clock.nowMs() + 20_000)
    breaker.handBack('forced', 'well', null)
    assert.equal(breaker.skips(), false)
  })
})
