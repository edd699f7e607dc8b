/**
 * Tests what one circuit breaker concludes from single jobs. The tests of target-health.ts show when breakers open and close.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { CircuitBreaker, FAILED_JOBS_TO_OPEN, FIRST_CHECK_MS } from './circuit-breaker.ts'
import type { Trouble } from './model-server.ts'

const TROUBLE: Trouble = { kind: 'broken', status: 502, message: 'bad gateway' }

function start() {
  const clock = new FakeClock()
  const reported: number[] = []
  const breaker: CircuitBreaker = new CircuitBreaker(
    clock,
    () => 0.5,
    () => reported.push(breaker.allowance),
  )
  const fail = (jobId: string, retryAfterMs: number | null = null) => {
    breaker.began(jobId)
    return breaker.failed(jobId, retryAfterMs, TROUBLE)
  }
  const passCheck = () => {
    clock.advance(breaker.untilCheckMs)
    breaker.checked(null)
  }
  return { clock, breaker, reported, fail, passCheck }
}

describe('a circuit breaker', () => {
  it('stays closed while it is the same job that fails, and knows which one failed last', () => {
    const { breaker, fail } = start()
    for (let n = 0; n < 2 * FAILED_JOBS_TO_OPEN; n++) assert.equal(fail('a'), false)
    for (const job of ['b', 'a']) fail(job)
    assert.deepEqual([breaker.phase, breaker.failedJobs], ['available', ['b', 'a']])
  })

  it('closes when an earlier call succeeds during a trial, which then shows nothing more', () => {
    const { breaker, reported, passCheck } = start()
    breaker.open(TROUBLE, 0)
    passCheck()
    breaker.began('trial')
    breaker.succeeded('earlier')
    assert.deepEqual(reported, [0, 1, 0, Number.POSITIVE_INFINITY])
    assert.deepEqual([breaker.trouble, breaker.unavailableSinceMs, breaker.failedJobs], [null, null, []])
    breaker.failed('trial', null, TROUBLE)
    assert.equal(breaker.phase, 'available')
  })

  it('continues with the same wait when a trial fails', () => {
    const { breaker, clock, fail, passCheck } = start()
    breaker.open(TROUBLE, 0)
    const since = clock.nowMs()
    passCheck()
    clock.advance(30)
    fail('job 9')
    assert.deepEqual([breaker.phase, breaker.unavailableSinceMs], ['unavailable', since])
    assert.deepEqual([breaker.untilCheckMs, breaker.failedJobs.at(-1)], [2 * FIRST_CHECK_MS, 'job 9'])
  })

  it('is open for as long as Retry-After says, even if an old call succeeds meanwhile', () => {
    const { breaker, clock, fail } = start()
    assert.equal(fail('job', 20_000), true)
    breaker.succeeded('old')
    assert.deepEqual([breaker.phase, breaker.openUntilMs], ['unavailable', clock.nowMs() + 20_000])
  })
})
