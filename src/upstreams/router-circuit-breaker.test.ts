/** Targets that keep failing are skipped until they respond again. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { reply } from '../../test/model-server.ts'
import {
  failing,
  modelRequest,
  never,
  passPauses,
  type RouterSetup,
  startRouter,
} from '../../test/support/router-setup.ts'
import { Stop } from '../job/stop.ts'
import { FAILED_JOBS_TO_OPEN, FIRST_CHECK_MS } from './circuit-breaker.ts'
import { ROUNDS } from './router.ts'

const askAll = ({ router }: RouterSetup, model: string, count: number) =>
  Array.from({ length: count }, (_, n) => router.ask(modelRequest(model, { jobId: `job ${n}` }), never))

/** Runs so many jobs that their failures make target a/m unavailable. The next target answers them. */
const openBreaker = (setup: RouterSetup, model: string) =>
  Promise.all(askAll(setup, model, FAILED_JOBS_TO_OPEN))

/** Makes target a/m respond to its next check. */
async function passCheck({ router, clock, a }: RouterSetup) {
  a.script = () => undefined
  const changed = new Promise<void>((resolve) => router.watch(resolve))
  clock.advance(FIRST_CHECK_MS)
  await changed
}

describe('the circuit breaker', () => {
  it('of a target that keeps failing opens, permits one call after a check, and closes again', async (t) => {
    const setup = await startRouter(t, { a: failing, isPatient: true })
    const { router, clock, a } = setup
    await openBreaker(setup, 'two')
    assert.equal(a.requests.length, FAILED_JOBS_TO_OPEN)
    const state = router.state().find(({ name }) => name === 'a')
    assert.equal(state?.openUntilMs, clock.nowMs() + FIRST_CHECK_MS)
    assert.deepEqual(state?.targets, [
      {
        model: 'm',
        consecutiveFailures: FAILED_JOBS_TO_OPEN,
        openUntilMs: clock.nowMs() + FIRST_CHECK_MS,
        learnedRoles: null,
        limitedAccounts: 1,
        unavailable: {
          sinceMs: clock.nowMs(),
          trouble: { kind: 'overloaded', status: 503, message: 'It answers 503.' },
        },
      },
    ])
    const routed = await router.ask(modelRequest('two'), never)
    assert.deepEqual(
      routed.calls.map(({ target }) => target),
      ['b/n'],
    )
    await passCheck(setup)
    assert.equal((await router.ask(modelRequest('two'), never)).target, 'a/m')
    assert.equal((await router.ask(modelRequest('two'), never)).target, 'a/m')
    assert.equal(router.state()[0]?.openUntilMs, null)
  })

  it('is not shown for longer than a minute while checks succeed and there is no job to try', async (t) => {
    const setup = await startRouter(t, { a: failing, isPatient: true })
    const { router, clock } = setup
    await openBreaker(setup, 'two')
    await passCheck(setup)
    const isShown = () => router.state()[0]?.targets[0]?.unavailable !== null
    clock.advance(60_000)
    assert.equal(isShown(), true)
    clock.advance(1)
    assert.equal(isShown(), false)
  })

  it('while one call probes, the others use the next target', async (t) => {
    const setup = await startRouter(t, { a: failing, isPatient: true })
    const { router, a } = setup
    await openBreaker(setup, 'two')
    await passCheck(setup)
    a.script = () => reply.stall()
    const probe = router.ask(modelRequest('two'), never)
    await a.received(FAILED_JOBS_TO_OPEN + 2)
    assert.equal((await router.ask(modelRequest('two'), never)).target, 'b/n')
    a.release()
    assert.equal((await probe).target, 'a/m')
  })

  it('without patience, when all are open, the targets are called nevertheless', async (t) => {
    const setup = await startRouter(t, { a: failing, b: failing })
    const { router, clock, a, b } = setup
    const asked = router.ask(modelRequest('two'), never)
    await passPauses(clock, ROUNDS - 1)
    const { wait } = await asked
    assert.equal(wait, undefined)
    assert.ok(router.state().every(({ openUntilMs }) => openUntilMs !== null))
    assert.equal(router.limited.size, 0, 'the queue holds no job back')
    b.script = () => undefined
    const before = a.requests.length
    const routed = await router.ask(modelRequest('two'), never)
    assert.equal(routed.target, 'b/n')
    assert.equal(a.requests.length, before + 1)
    assert.equal(router.state()[1]?.openUntilMs, null, 'a success closes it')
  })

  it('ignores calls that we aborted', async (t) => {
    const { router, a } = await startRouter(t, { a: () => reply.stall() })
    for (let n = 1; n <= FAILED_JOBS_TO_OPEN + 1; n++) {
      const stop = new Stop()
      const asked = router.ask(modelRequest('one', { jobId: `job ${n}` }), stop)
      await a.received(n)
      stop.now('release')
      await asked
    }
    assert.equal(router.state()[0]?.targets[0]?.consecutiveFailures, 0)
  })

  it('of an upstream counts as open when those of all its targets are', async (t) => {
    const target = (model: string) => ({
      targets: [
        { upstream: 'a', model },
        { upstream: 'b', model },
      ],
    })
    const models = { x: target('x'), y: target('y') }
    const setup = await startRouter(t, { models, a: failing })
    await openBreaker(setup, 'x')
    const openUntil = () => setup.router.state()[0]?.openUntilMs
    assert.equal(openUntil(), null)
    const first = setup.clock.nowMs() + FIRST_CHECK_MS
    setup.clock.advance(FIRST_CHECK_MS / 2)
    await openBreaker(setup, 'y')
    assert.equal(openUntil(), first)
  })

  it('while it is open, no request waits for a slot at the target', async (t) => {
    const setup = await startRouter(t, {
      a: (_request, index) => (index < FAILED_JOBS_TO_OPEN ? reply.stall(reply.status(503)) : reply.stall()),
      maxConcurrency: FAILED_JOBS_TO_OPEN,
    })
    const { router, clock, a } = setup
    const first = askAll(setup, 'two', FAILED_JOBS_TO_OPEN)
    await a.received(FAILED_JOBS_TO_OPEN)
    a.release()
    await Promise.all(first)
    // Requests that have no other target hold all slots at upstream a.
    const alone = askAll(setup, 'one', FAILED_JOBS_TO_OPEN)
    await a.received(2 * FAILED_JOBS_TO_OPEN)
    assert.equal((await router.ask(modelRequest('two'), never)).target, 'b/n')
    a.release()
    await Promise.all(alone)
    assert.deepEqual(clock.pending(), [], 'their success ends the wait')
  })

  it('that opens while requests wait for a slot sends them to the next target', async (t) => {
    const setup = await startRouter(t, {
      a: () => reply.stall(reply.status(503)),
      maxConcurrency: 1,
    })
    const { router, a, b } = setup
    const all = FAILED_JOBS_TO_OPEN + 7
    const asked = askAll(setup, 'two', all)
    await a.received(1)
    assert.equal(router.state()[0]?.waiting, all - 1)
    a.script = failing
    a.release()
    const routed = await Promise.all(asked)
    assert.ok(routed.every(({ target }) => target === 'b/n'))
    assert.equal(a.requests.length, FAILED_JOBS_TO_OPEN)
    assert.equal(b.requests.length, all)
  })
})
