/** A router with patience: its requests wait for model servers instead of failing. */
import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { isModelList, reply } from '../../test/model-server.ts'
import {
  failing,
  isPause,
  modelRequest,
  never,
  passPauses,
  type RouterSetup,
  startRouter,
} from '../../test/support/router-setup.ts'
import { MAX_TRIES } from './call-target.ts'
import { FAILED_JOBS_TO_OPEN, FIRST_CHECK_MS } from './circuit-breaker.ts'
import { ROUNDS } from './router.ts'

const startPatient = (t: TestContext, options: Parameters<typeof startRouter>[1] = {}) =>
  startRouter(t, { ...options, isPatient: true })

const ask = ({ router }: RouterSetup, jobId: string, model = 'one', tries = 0) =>
  router.ask(modelRequest(model, { jobId, tries }), never)

/** Runs so many jobs at once that their failures make target a/m unavailable. */
async function failJobs(setup: RouterSetup, model = 'one') {
  const jobs = Array.from({ length: FAILED_JOBS_TO_OPEN }, (_, n) => ask(setup, `job ${n}`, model))
  await setup.a.received(FAILED_JOBS_TO_OPEN)
  if (model === 'one') await passPauses(setup.clock, 1)
  return Promise.all(jobs)
}

/** The limit of the only account that calls. */
const limitOf = ({ router }: RouterSetup) => router.limitedAccounts.get('a/m')?.get('acme')

describe('a patient router', () => {
  for (const status of [500, 502, 503, 429, 401, 404]) {
    it(`lets jobs wait once five have got ${status}`, async (t) => {
      const setup = await startPatient(t, { a: () => reply.status(status) })
      const routed = await failJobs(setup)
      for (const { wait } of routed) assert.equal(wait?.route, 'a/m')
      assert.equal(limitOf(setup)?.allowance, 0)
      assert.equal(limitOf(setup)?.trouble?.status, status)
      const before = setup.a.requests.length
      const later = await ask(setup, 'later')
      assert.equal(later.wait?.unavailableSinceMs, limitOf(setup)?.unavailableSinceMs)
      assert.deepEqual([later.calls, later.wait?.tries], [[], 0])
      assert.equal(setup.a.requests.length, before, 'nothing is sent while the target is unavailable')
    })
  }

  it('lets a single job wait after three rounds', async (t) => {
    const setup = await startPatient(t, { a: failing })
    const asked = ask(setup, 'job')
    await passPauses(setup.clock, ROUNDS - 1)
    const { wait, calls, reply: last } = await asked
    assert.equal(calls.length, ROUNDS)
    assert.equal(last.kind, 'error')
    assert.deepEqual([wait?.tries, wait?.trouble?.kind], [0, 'overloaded'])
  })

  it('lets a job wait at once while Retry-After lasts, and asks again only after that', async (t) => {
    const setup = await startPatient(t, { a: () => reply.status(429, { headers: { 'retry-after': '20' } }) })
    const { wait, calls } = await ask(setup, 'job')
    assert.ok(wait)
    assert.equal(calls.length, 1)
    setup.clock.advance(19_999)
    assert.equal(setup.a.requests.length, 1)
  })

  it('still tries the next target first', async (t) => {
    for (const status of [401, 404, 500, 503]) {
      const setup = await startPatient(t, { a: () => reply.status(status) })
      const { target, wait } = await ask(setup, 'job', 'two')
      assert.deepEqual([target, wait], ['b/n', undefined])
    }
  })

  it('returns other 4xx at once', async (t) => {
    const setup = await startPatient(t, { a: () => reply.status(400) })
    const { reply: last, wait, calls } = await ask(setup, 'job', 'two')
    assert.deepEqual([last.kind, wait, calls.length], ['error', undefined, 1])
  })

  it('fails a job that gets 500 three times', async (t) => {
    const setup = await startPatient(t, { a: () => reply.status(500) })
    const asked = ask(setup, 'job')
    await passPauses(setup.clock, MAX_TRIES - 1)
    const { wait, calls, reply: last } = await asked
    assert.deepEqual([wait, calls.length], [undefined, MAX_TRIES])
    assert.ok(last.kind === 'error' && last.status === 500)
  })

  it('lets a job wait that gets 500 three times, if another one gets it too and none succeeds', async (t) => {
    const setup = await startPatient(t, { a: () => reply.status(500) })
    const asked = ask(setup, 'job')
    await setup.clock.timerSet(isPause)
    assert.equal((await ask(setup, 'another', 'two')).target, 'b/n')
    await passPauses(setup.clock, ROUNDS - 1)
    const { wait, calls } = await asked
    assert.deepEqual([calls.length, wait?.tries], [ROUNDS, 1])
  })

  for (const model of ['one', 'two']) {
    it(`fails one job after the other that gets 500 three times, from each target of ${model}`, async (t) => {
      const setup = await startPatient(t, { a: () => reply.status(500), b: () => reply.status(500) })
      for (const jobId of ['first', 'second']) {
        const asked = ask(setup, jobId, model)
        await passPauses(setup.clock, MAX_TRIES - 1)
        assert.equal((await asked).wait, undefined)
      }
    })
  }

  it('counts the tries of earlier runs', async (t) => {
    const setup = await startPatient(t, { a: () => reply.status(500) })
    const { wait, calls } = await ask(setup, 'job', 'one', MAX_TRIES - 1)
    assert.deepEqual([wait, calls.length], [undefined, 1])
  })

  it('fails a job that is too large for a rate limit after three tries', async (t) => {
    const message = 'Request too large for gpt-5 on tokens per min (TPM): Limit 30000, Requested 43501.'
    const tooLarge = reply.status(429, {
      body: { error: { message, type: 'tokens', code: 'rate_limit_exceeded' } },
    })
    const setup = await startPatient(t, { a: () => tooLarge })
    const asked = ask(setup, 'job')
    await passPauses(setup.clock, MAX_TRIES - 1)
    assert.equal((await asked).wait, undefined)
    assert.equal(setup.router.limited.size, 0)
  })

  it('lets a job wait whose calls are reset while no other succeeds', async (t) => {
    const setup = await startPatient(t, { a: () => reply.reset() })
    const asked = ask(setup, 'job')
    await passPauses(setup.clock, ROUNDS - 1)
    const { wait } = await asked
    assert.deepEqual([wait?.tries, wait?.breaks?.seen, wait?.breaks?.counted], [0, ROUNDS, 0])
    assert.equal(limitOf(setup)?.trouble?.kind, 'broken')
  })

  it('asks for the list of models, then lets one job through, then all', async (t) => {
    const setup = await startPatient(t, { a: failing })
    const { router, clock, a } = setup
    const checks = () => a.requests.filter(isModelList).length
    await failJobs(setup)
    await clock.timerSet((ms) => ms === FIRST_CHECK_MS)
    clock.advance(FIRST_CHECK_MS)
    await clock.timerSet((ms) => ms === 2 * FIRST_CHECK_MS)
    assert.deepEqual([checks(), router.limited.get('a/m')?.allowance], [1, 0])
    a.script = () => undefined
    const changed = new Promise<void>((resolve) => router.watch(resolve))
    clock.advance(2 * FIRST_CHECK_MS)
    await changed
    assert.equal(router.limited.get('a/m')?.allowance, 1)
    assert.equal((await ask(setup, 'trial')).reply.kind, 'answer')
    assert.equal(router.limited.size, 0)
    // If a job waits for several targets, `availableSinceMs` is the last time at which one of them became available.
    const availableMs = clock.nowMs()
    clock.advance(1000)
    for (const server of [a, setup.b]) server.script = failing
    const asked = ask(setup, 'later', 'two')
    await passPauses(clock, ROUNDS - 1)
    assert.equal((await asked).wait?.availableSinceMs, availableMs)
  })

  it('does not fail for its deadline while it waits for a slot', async (t) => {
    const setup = await startPatient(t, { a: () => reply.stall(), maxConcurrency: 1 })
    const first = ask(setup, 'first')
    await setup.a.received(1)
    let paused = 0
    const time = { pause: () => paused++, resume: () => paused-- }
    const signal = { reason: null, ...time, listen: () => {}, unlisten: () => {} }
    const second = setup.router.ask(modelRequest('one', { jobId: 'second' }), signal)
    assert.equal(paused, 1)
    setup.a.release()
    await first
    await setup.a.received(2)
    assert.equal(paused, 0)
    setup.a.release()
    assert.equal((await second).reply.kind, 'answer')
  })
})
