/** When a circuit breaker opens, and how its target is called again. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { CircuitBreaker, FAILED_JOBS_TO_OPEN, FIRST_CHECK_MS, MAX_CHECK_MS } from './circuit-breaker.ts'
import type { Trouble } from './model-server.ts'

const TROUBLE: Trouble = { kind: 'broken', status: 502, message: 'bad gateway' }

function start() {
  const clock = new FakeClock()
  const reported = { allowance: Number.POSITIVE_INFINITY }
  const breaker = new CircuitBreaker(
    clock,
    () => 0.5,
    () => {
      reported.allowance = breaker.allowance
    },
  )
  const begin = (jobId: string) => {
    assert.equal(breaker.isOpen, false)
    breaker.began(jobId)
  }
  const fail = (jobId: string, retryAfterMs: number | null = null) => {
    begin(jobId)
    return breaker.failed(jobId, retryAfterMs, TROUBLE)
  }
  const failJobs = () => {
    for (let n = 1; n <= FAILED_JOBS_TO_OPEN; n++) fail(`job ${n}`)
  }
  const passCheck = () => {
    clock.advance(breaker.untilCheckMs)
    breaker.checked(null)
  }
  return { clock, breaker, reported, begin, fail, failJobs, passCheck }
}

describe('a circuit breaker', () => {
  it('opens when five jobs have failed in a row', () => {
    const { breaker, fail, failJobs, clock } = start()
    for (let n = 1; n < FAILED_JOBS_TO_OPEN; n++) assert.equal(fail(`job ${n}`), false)
    breaker.succeeded('another')
    failJobs()
    assert.deepEqual([breaker.phase, breaker.allowance, breaker.isOpen], ['unavailable', 0, true])
    assert.deepEqual([breaker.unavailableSinceMs, breaker.trouble], [clock.nowMs(), TROUBLE])
  })

  it('closes when an earlier call succeeds during a trial, which then shows nothing more', () => {
    const { breaker, reported, begin, passCheck } = start()
    breaker.open(TROUBLE, 0)
    passCheck()
    assert.equal(reported.allowance, 1)
    begin('trial')
    assert.equal(reported.allowance, 0)
    breaker.succeeded('earlier')
    assert.deepEqual([breaker.phase, reported.allowance], ['available', Number.POSITIVE_INFINITY])
    breaker.failed('trial', null, TROUBLE)
    assert.equal(breaker.phase, 'available')
  })

  it('stays closed while it is the same job that fails', () => {
    const { breaker, fail } = start()
    for (let n = 0; n < 2 * FAILED_JOBS_TO_OPEN; n++) fail('job')
    assert.equal(breaker.phase, 'available')
  })

  it('knows which job failed last', () => {
    const { breaker, fail } = start()
    for (const job of ['a', 'b', 'a']) fail(job)
    assert.deepEqual(breaker.failedJobs, ['b', 'a'])
  })

  it('is open at once for as long as Retry-After says', () => {
    const { breaker, fail, clock } = start()
    assert.equal(fail('job', 20_000), true)
    assert.deepEqual([breaker.phase, breaker.untilCheckMs], ['unavailable', 20_000])
    assert.equal(breaker.openUntilMs, clock.nowMs() + 20_000)
  })

  it('is checked at growing intervals up to four seconds', () => {
    const { breaker, clock, failJobs } = start()
    failJobs()
    const pauses = Array.from({ length: 5 }, () => {
      const ms = breaker.untilCheckMs
      clock.advance(ms)
      breaker.checked(TROUBLE)
      return ms
    })
    assert.deepEqual(pauses, [FIRST_CHECK_MS, 2000, MAX_CHECK_MS, MAX_CHECK_MS, MAX_CHECK_MS])
  })

  it('allows one job after a check, and all when it has succeeded', () => {
    const { breaker, begin, failJobs, passCheck } = start()
    failJobs()
    passCheck()
    assert.deepEqual([breaker.phase, breaker.allowance], ['trial', 1])
    begin('trial')
    assert.equal(breaker.isOpen, true)
    breaker.succeeded('trial')
    assert.deepEqual(
      [breaker.phase, breaker.allowance, breaker.unavailableSinceMs, breaker.trouble, breaker.failedJobs],
      ['available', Number.POSITIVE_INFINITY, null, null, []],
    )
  })

  it('continues with the same wait when a trial fails', () => {
    const { breaker, clock, begin, failJobs, passCheck } = start()
    failJobs()
    const since = breaker.unavailableSinceMs
    passCheck()
    begin('job 9')
    clock.advance(30)
    breaker.failed('job 9', null, TROUBLE)
    assert.deepEqual([breaker.phase, breaker.unavailableSinceMs], ['unavailable', since])
    assert.equal(breaker.untilCheckMs, 2 * FIRST_CHECK_MS)
    assert.equal(breaker.failedJobs.at(-1), 'job 9')
  })

  it('permits another trial when one was aborted', () => {
    const { breaker, begin, failJobs, passCheck, reported } = start()
    failJobs()
    passCheck()
    begin('job')
    breaker.ignored('job')
    assert.deepEqual([breaker.isOpen, reported.allowance], [false, 1])
  })

  it('ignores the success of an old call while Retry-After lasts', () => {
    const { breaker, fail } = start()
    fail('job', 30_000)
    breaker.succeeded('old')
    assert.equal(breaker.phase, 'unavailable')
  })
})
