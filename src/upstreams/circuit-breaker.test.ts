/** When a target is unavailable, how it is retried, and how work ramps up. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { CircuitBreaker, FAILED_JOBS_TO_OPEN, FIRST_CHECK_MS, MAX_CHECK_MS } from './circuit-breaker.ts'
import type { Trouble } from './model-server.ts'

const TROUBLE: Trouble = { kind: 'broken', status: 502, message: 'bad gateway' }

function start() {
  const clock = new FakeClock()
  const phases: string[] = []
  const reported = { allowance: Number.POSITIVE_INFINITY }
  const health = new CircuitBreaker(
    clock,
    () => 0.5,
    ({ phase, allowance }) => {
      if (phases.at(-1) !== phase) phases.push(phase)
      reported.allowance = allowance
    },
  )
  const call = (jobId: string, result: 'success' | 'failure', retryAfterMs: number | null = null) => {
    const permit = health.acquire()
    assert.ok(permit, `no permit for ${jobId}`)
    health.release(permit, result, retryAfterMs, jobId, TROUBLE)
  }
  const failJobs = () => {
    for (let n = 1; n <= FAILED_JOBS_TO_OPEN; n++) call(`job ${n}`, 'failure')
  }
  return { clock, health, phases, reported, call, failJobs }
}

describe('a target', () => {
  it('is unavailable when five jobs have failed in a row', () => {
    const { health, call, failJobs, clock } = start()
    for (let n = 1; n < FAILED_JOBS_TO_OPEN; n++) call(`job ${n}`, 'failure')
    call('another', 'success')
    assert.equal(health.phase, 'available')
    failJobs()
    assert.deepEqual([health.phase, health.allowance, health.acquire()], ['unavailable', 0, null])
    assert.deepEqual([health.unavailableSinceMs, health.trouble], [clock.nowMs(), TROUBLE])
  })

  it('allows jobs again when a trial ends after an earlier call has succeeded', () => {
    const { health, reported, clock } = start()
    assert.equal(health.acquire(), 'normal')
    health.giveUp(TROUBLE, 0)
    clock.advance(FIRST_CHECK_MS)
    health.checked(null)
    assert.equal(reported.allowance, 1)
    assert.equal(health.acquire(), 'probe')
    health.release('normal', 'success', null, 'an earlier job', TROUBLE)
    health.release('probe', 'success', null, 'the trial', TROUBLE)
    assert.deepEqual([reported.allowance, health.allowance], [2, 2])
  })

  it('stays available while it is the same job that fails', () => {
    const { health, call } = start()
    for (let n = 0; n < 2 * FAILED_JOBS_TO_OPEN; n++) call('job', 'failure')
    assert.equal(health.phase, 'available')
  })

  it('is unavailable at once for as long as Retry-After says', () => {
    const { health, call, clock } = start()
    call('job', 'failure', 20_000)
    assert.deepEqual([health.phase, health.untilCheckMs], ['unavailable', 20_000])
    assert.equal(health.openUntilMs, clock.nowMs() + 20_000)
  })

  it('is unavailable when a job gives up, unless it has succeeded for others since', () => {
    const { health, call } = start()
    call('job', 'failure')
    const before = health.successes
    call('another', 'success')
    health.giveUp(TROUBLE, before)
    assert.equal(health.phase, 'available')
    health.giveUp(TROUBLE, health.successes)
    assert.equal(health.phase, 'unavailable')
  })

  it('is checked at growing intervals up to four seconds', () => {
    const { health, clock, failJobs } = start()
    failJobs()
    const pauses = Array.from({ length: 5 }, () => {
      const ms = health.untilCheckMs
      clock.advance(ms)
      health.checked(TROUBLE)
      return ms
    })
    assert.deepEqual(pauses, [FIRST_CHECK_MS, 2000, MAX_CHECK_MS, MAX_CHECK_MS, MAX_CHECK_MS])
  })

  it('that answers a check gets one job, and more with each full window of successes', () => {
    const { health, clock, call, failJobs, phases } = start()
    failJobs()
    clock.advance(health.untilCheckMs)
    health.checked(null)
    assert.deepEqual([health.phase, health.allowance], ['trial', 1])
    const probe = health.acquire()
    assert.deepEqual([probe, health.acquire()], ['probe', null])
    assert.ok(probe)
    health.release(probe, 'success', null, 'job 9', TROUBLE)
    assert.deepEqual([health.phase, health.allowance, health.unavailableSinceMs], ['recovering', 2, null])
    for (let n = 0; n < 2; n++) call('job', 'success')
    assert.equal(health.allowance, 4)
    for (let n = 0; n < 4 + 8 + 16 + 32 + 64 + 128 + 256; n++) call('job', 'success')
    assert.deepEqual([health.phase, health.allowance], ['available', Number.POSITIVE_INFINITY])
    assert.deepEqual([phases.at(0), phases.at(1), phases.at(-1)], ['unavailable', 'trial', 'available'])
  })

  it('whose trial fails continues with the same wait', () => {
    const { health, clock, failJobs } = start()
    failJobs()
    const since = health.unavailableSinceMs
    clock.advance(health.untilCheckMs)
    health.checked(null)
    const probe = health.acquire()
    assert.ok(probe)
    clock.advance(30)
    health.release(probe, 'failure', null, 'job 9', TROUBLE)
    assert.deepEqual([health.phase, health.unavailableSinceMs], ['unavailable', since])
    assert.equal(health.untilCheckMs, 2 * FIRST_CHECK_MS)
    assert.equal(health.failedJobs.at(-1), 'job 9')
  })

  it('permits another trial when one was aborted', () => {
    const { health, clock, failJobs } = start()
    failJobs()
    clock.advance(health.untilCheckMs)
    health.checked(null)
    const probe = health.acquire()
    assert.ok(probe)
    health.release(probe, 'ignored', null, 'job 9', TROUBLE)
    assert.equal(health.acquire(), 'probe')
  })

  it('knows which jobs failed again although others succeeded in between', () => {
    const { health, call } = start()
    call('job', 'failure')
    call('job', 'failure')
    assert.equal(health.succeededBetweenFailuresOf('job'), false)
    call('another', 'success')
    call('job', 'failure')
    assert.equal(health.succeededBetweenFailuresOf('job'), true)
    call('job', 'failure')
    assert.equal(health.succeededBetweenFailuresOf('job'), false)
  })

  it('ignores the success of an old call while Retry-After lasts', () => {
    const { health, call } = start()
    const old = health.acquire()
    assert.ok(old)
    call('job', 'failure', 30_000)
    health.release(old, 'success', null, 'another', TROUBLE)
    assert.equal(health.phase, 'unavailable')
  })
})
