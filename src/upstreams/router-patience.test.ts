/** Tests a router with patience: its requests wait for model servers instead of failing. */
import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { isModelList, reply, type Script } from '../../test/model-server.ts'
import {
  ask,
  failing,
  isPause,
  modelRequest,
  passCheck,
  passPauses,
  type RouterSetup,
  type SetupOptions,
  startRouter,
} from '../../test/support/router-setup.ts'
import { MAX_TRIES } from './call-target.ts'
import { FAILED_JOBS_TO_OPEN, FIRST_CHECK_MS } from './circuit-breaker.ts'
import { ROUNDS } from './router.ts'

const startPatient = (t: TestContext, a: Script, options: SetupOptions = {}) =>
  startRouter(t, { a, isPatient: true, ...options })

/** Runs so many jobs at once that their failures make target a/m unavailable. */
async function failJobs(setup: RouterSetup) {
  const jobs = Array.from({ length: FAILED_JOBS_TO_OPEN }, (_, n) => ask(setup, { jobId: `job ${n}` }))
  await setup.a.received(FAILED_JOBS_TO_OPEN)
  await passPauses(setup.clock, 1)
  return Promise.all(jobs)
}

const limitOf = ({ router }: RouterSetup) => router.limitedAccounts.get('a/m')?.get('acme')

describe('a patient router', () => {
  for (const status of [500, 502, 503, 429, 401, 404]) {
    it(`lets jobs wait once five have got ${status}`, async (t) => {
      const setup = await startPatient(t, () => reply.status(status))
      for (const { wait } of await failJobs(setup)) assert.equal(wait?.route, 'a/m')
      const limit = limitOf(setup)
      assert.deepEqual([limit?.allowance, limit?.trouble?.status], [0, status])
      const before = setup.a.requests.length
      const { calls, wait } = await ask(setup, { jobId: 'later' })
      assert.equal(wait?.unavailableSinceMs, limit?.unavailableSinceMs)
      assert.deepEqual([calls, wait?.tries], [[], 0])
      assert.equal(setup.a.requests.length, before, 'nothing is sent while the target is unavailable')
    })
  }

  it('lets a single job wait after three rounds', async (t) => {
    const setup = await startPatient(t, failing)
    const { wait, calls, reply: last } = await ask(setup, { pauses: ROUNDS - 1 })
    assert.deepEqual([calls.length, last.kind], [ROUNDS, 'error'])
    assert.deepEqual([wait?.tries, wait?.trouble?.kind], [0, 'overloaded'])
  })

  it('lets a job wait at once while Retry-After lasts, and asks again only after that', async (t) => {
    const setup = await startPatient(t, () => reply.status(429, { headers: { 'retry-after': '20' } }))
    const { wait, calls } = await ask(setup)
    assert.ok(wait)
    assert.equal(calls.length, 1)
    setup.clock.advance(19_999)
    assert.equal(setup.a.requests.length, 1)
  })

  for (const model of ['one', 'two']) {
    it(`fails one job after the other that gets 500 three times, from each target of ${model}`, async (t) => {
      const broken = () => reply.status(500)
      const setup = await startPatient(t, broken, { b: broken })
      for (const jobId of ['first', 'second']) {
        const { wait, calls, reply: last } = await ask(setup, { jobId, model, pauses: MAX_TRIES - 1 })
        assert.deepEqual([wait, calls.length], [undefined, MAX_TRIES * (model === 'one' ? 1 : 2)])
        assert.ok(last.kind === 'error' && last.status === 500)
      }
    })
  }

  it('lets a job wait that gets 500 three times, if another one gets it too and none succeeds', async (t) => {
    const setup = await startPatient(t, () => reply.status(500))
    const asked = ask(setup)
    await setup.clock.timerSet(isPause)
    assert.equal((await ask(setup, { jobId: 'another', model: 'two' })).target, 'b/n')
    await passPauses(setup.clock, ROUNDS - 1)
    const { wait, calls } = await asked
    assert.deepEqual([calls.length, wait?.tries], [ROUNDS, 1])
  })

  it('counts the tries of earlier runs', async (t) => {
    const setup = await startPatient(t, () => reply.status(500))
    const { wait, calls } = await ask(setup, { tries: MAX_TRIES - 1 })
    assert.deepEqual([wait, calls.length], [undefined, 1])
  })

  it('fails a job that is too large for a rate limit after three tries', async (t) => {
    const message = 'Request too large for gpt-5 on tokens per min (TPM): Limit 30000, Requested 43501.'
    const body = { error: { message, type: 'tokens', code: 'rate_limit_exceeded' } }
    const setup = await startPatient(t, () => reply.status(429, { body }))
    assert.equal((await ask(setup, { pauses: MAX_TRIES - 1 })).wait, undefined)
    assert.equal(setup.router.limited.size, 0)
  })

  it('lets a job wait whose calls are reset while no other succeeds', async (t) => {
    const setup = await startPatient(t, () => reply.reset())
    const { wait } = await ask(setup, { pauses: ROUNDS - 1 })
    assert.deepEqual([wait?.tries, wait?.breaks?.seen, wait?.breaks?.counted], [0, ROUNDS, 0])
    assert.equal(limitOf(setup)?.trouble?.kind, 'broken')
  })

  it('asks for the list of models, then lets one job through, then all', async (t) => {
    const setup = await startPatient(t, failing)
    const { router, clock, a } = setup
    await failJobs(setup)
    await clock.timerSet((ms) => ms === FIRST_CHECK_MS)
    clock.advance(FIRST_CHECK_MS)
    await clock.timerSet((ms) => ms === 2 * FIRST_CHECK_MS)
    const checks = a.requests.filter(isModelList).length
    assert.deepEqual([checks, router.limited.get('a/m')?.allowance], [1, 0])
    a.script = () => undefined
    await passCheck(setup, 2 * FIRST_CHECK_MS)
    assert.equal(router.limited.get('a/m')?.allowance, 1)
    assert.equal((await ask(setup, { jobId: 'trial' })).reply.kind, 'answer')
    assert.equal(router.limited.size, 0)
    // If a job waits for several targets, `availableSinceMs` is the last time at which one of them became available.
    const availableMs = clock.nowMs()
    clock.advance(1000)
    for (const server of [a, setup.b]) server.script = failing
    const { wait } = await ask(setup, { jobId: 'later', model: 'two', pauses: ROUNDS - 1 })
    assert.equal(wait?.availableSinceMs, availableMs)
  })

  it('does not fail for its deadline while it waits for a slot', async (t) => {
    const setup = await startPatient(t, () => reply.stall(), { maxConcurrency: 1 })
    const first = ask(setup, { jobId: 'first' })
    await setup.a.received(1)
    let paused = 0
    const time = { pause: () => paused++, resume: () => paused-- }
    const signal = { reason: null, ...time, listen: () => {}, unlisten: () => {} }
    const second = setup.router.ask(modelRequest({ jobId: 'second' }), signal)
    assert.equal(paused, 1)
    setup.a.release()
    await first
    await setup.a.received(2)
    assert.equal(paused, 0)
    setup.a.release()
    assert.equal((await second).reply.kind, 'answer')
  })
})
