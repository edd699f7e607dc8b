/** Targets that keep failing are skipped until their circuit breaker closes again. */
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
import { ROUNDS } from './router.ts'
import { FAILURES_TO_OPEN, FIRST_OPEN_MS } from './timed-circuit-breaker.ts'

describe('the circuit breaker', () => {
  const openBreaker = async ({ router }: RouterSetup, model: string) => {
    for (let n = 0; n < FAILURES_TO_OPEN; n++) await router.ask(modelRequest(model), never)
  }

  it('of a target that keeps failing opens, is probed, and closes again', async (t) => {
    const setup = await startRouter(t, { a: failing })
    const { router, clock, a } = setup
    await openBreaker(setup, 'two')
    assert.equal(a.requests.length, FAILURES_TO_OPEN)
    const state = router.state().find(({ name }) => name === 'a')
    assert.equal(state?.openUntilMs, clock.nowMs() + FIRST_OPEN_MS)
    assert.deepEqual(state?.targets, [
      {
        model: 'm',
        consecutiveFailures: FAILURES_TO_OPEN,
        openUntilMs: clock.nowMs() + FIRST_OPEN_MS,
        learnedRoles: null,
        unavailable: null,
      },
    ])
    const routed = await router.ask(modelRequest('two'), never)
    assert.deepEqual(
      routed.calls.map(({ target }) => target),
      ['b/n'],
    )
    a.script = () => undefined
    clock.advance(FIRST_OPEN_MS)
    assert.equal((await router.ask(modelRequest('two'), never)).target, 'a/m')
    assert.equal((await router.ask(modelRequest('two'), never)).target, 'a/m')
    assert.equal(router.state()[0]?.openUntilMs, null)
  })

  it('while one call probes, the others use the next target', async (t) => {
    const setup = await startRouter(t, { a: failing })
    const { router, clock, a } = setup
    await openBreaker(setup, 'two')
    clock.advance(FIRST_OPEN_MS)
    a.script = () => reply.stall()
    const probe = router.ask(modelRequest('two'), never)
    await a.received(FAILURES_TO_OPEN + 1)
    assert.equal((await router.ask(modelRequest('two'), never)).target, 'b/n')
    a.release()
    assert.equal((await probe).target, 'a/m')
  })

  it('when all are open, the targets are called nevertheless', async (t) => {
    const setup = await startRouter(t, { a: failing, b: failing })
    const { router, clock, a, b } = setup
    for (let n = 0; n < 2; n++) {
      const asked = router.ask(modelRequest('two'), never)
      await passPauses(clock, ROUNDS - 1)
      await asked
    }
    assert.ok(router.state().every(({ openUntilMs }) => openUntilMs !== null))
    b.script = () => undefined
    const before = a.requests.length
    const routed = await router.ask(modelRequest('two'), never)
    assert.equal(routed.target, 'b/n')
    assert.equal(a.requests.length, before + 1)
  })

  it('ignores calls that we aborted', async (t) => {
    const { router, a } = await startRouter(t, { a: () => reply.stall() })
    for (let n = 1; n <= FAILURES_TO_OPEN + 1; n++) {
      const stop = new Stop()
      const asked = router.ask(modelRequest('one'), stop)
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
    const first = setup.clock.nowMs() + FIRST_OPEN_MS
    setup.clock.advance(1000)
    await openBreaker(setup, 'y')
    assert.equal(openUntil(), first)
  })

  it('while it is open, no request waits for a slot at the target', async (t) => {
    const { router, clock, a } = await startRouter(t, {
      a: (_request, index) => (index < FAILURES_TO_OPEN ? reply.stall(reply.status(503)) : reply.stall()),
      maxConcurrency: FAILURES_TO_OPEN,
    })
    const first = Array.from({ length: FAILURES_TO_OPEN }, () => router.ask(modelRequest('two'), never))
    await a.received(FAILURES_TO_OPEN)
    a.release()
    await Promise.all(first)
    // All slots at a are held by requests that have no other target.
    const alone = Array.from({ length: FAILURES_TO_OPEN }, () => router.ask(modelRequest('one'), never))
    await a.received(2 * FAILURES_TO_OPEN)
    assert.equal((await router.ask(modelRequest('two'), never)).target, 'b/n')
    a.release()
    await Promise.all(alone)
    assert.deepEqual(clock.pending(), [])
  })

  it('that opens while requests wait for a slot sends them to the next target', async (t) => {
    const { router, a, b } = await startRouter(t, {
      a: () => reply.stall(reply.status(503)),
      maxConcurrency: 1,
    })
    const all = FAILURES_TO_OPEN + 7
    const asked = Array.from({ length: all }, () => router.ask(modelRequest('two'), never))
    await a.received(1)
    assert.equal(router.state()[0]?.waiting, all - 1)
    a.script = failing
    a.release()
    const routed = await Promise.all(asked)
    assert.ok(routed.every(({ target }) => target === 'b/n'))
    assert.equal(a.requests.length, FAILURES_TO_OPEN)
    assert.equal(b.requests.length, all)
  })
})
