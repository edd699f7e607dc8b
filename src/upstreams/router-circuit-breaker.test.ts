/** Targets that keep failing are skipped, and come back. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { reply } from '../../test/model-server.ts'
import { failing, never, passPauses, question, type Scene, scene } from '../../test/support/router-scene.ts'
import { Stop } from '../job/stop.ts'
import { FAILURES_TO_SKIP, FIRST_SKIP_MS } from './circuit-breaker.ts'
import { ROUNDS } from './router.ts'

describe('skipping', () => {
  const breakIt = async ({ router }: Scene, model: string) => {
    for (let n = 0; n < FAILURES_TO_SKIP; n++) await router.ask(question(model), never)
  }

  it('a target that keeps failing is skipped for a while, then probed and used again', async (t) => {
    const here = await scene(t, { a: failing })
    const { router, clock, a } = here
    await breakIt(here, 'two')
    assert.equal(a.requests.length, FAILURES_TO_SKIP)
    const state = router.state().find(({ name }) => name === 'a')
    assert.equal(state?.skippedUntilMs, clock.nowMs() + FIRST_SKIP_MS)
    assert.deepEqual(state?.targets, [
      { model: 'm', failuresInRow: FAILURES_TO_SKIP, skippedUntilMs: clock.nowMs() + FIRST_SKIP_MS },
    ])
    const routed = await router.ask(question('two'), never)
    assert.deepEqual(
      routed.calls.map(({ target }) => target),
      ['b/n'],
    )
    a.script = () => undefined
    clock.advance(FIRST_SKIP_MS)
    assert.equal((await router.ask(question('two'), never)).target, 'a/m')
    assert.equal((await router.ask(question('two'), never)).target, 'a/m')
    assert.equal(router.state()[0]?.skippedUntilMs, null)
  })

  it('while one call probes, the others go elsewhere', async (t) => {
    const here = await scene(t, { a: failing })
    const { router, clock, a } = here
    await breakIt(here, 'two')
    clock.advance(FIRST_SKIP_MS)
    a.script = () => reply.stall()
    const probe = router.ask(question('two'), never)
    await a.received(FAILURES_TO_SKIP + 1)
    assert.equal((await router.ask(question('two'), never)).target, 'b/n')
    a.release()
    assert.equal((await probe).target, 'a/m')
  })

  it('when all are skipped they are tried nevertheless', async (t) => {
    const here = await scene(t, { a: failing, b: failing })
    const { router, clock, a, b } = here
    for (let n = 0; n < 2; n++) {
      const asked = router.ask(question('two'), never)
      await passPauses(clock, ROUNDS - 1)
      await asked
    }
    assert.ok(router.state().every(({ skippedUntilMs }) => skippedUntilMs !== null))
    b.script = () => undefined
    const before = a.requests.length
    const routed = await router.ask(question('two'), never)
    assert.equal(routed.target, 'b/n')
    assert.equal(a.requests.length, before + 1)
  })

  it('calls that we ended say nothing about the target', async (t) => {
    const { router, a } = await scene(t, { a: () => reply.stall() })
    for (let n = 1; n <= FAILURES_TO_SKIP + 1; n++) {
      const stop = new Stop()
      const asked = router.ask(question('one'), stop)
      await a.received(n)
      stop.now('give back')
      await asked
    }
    assert.equal(router.state()[0]?.targets[0]?.failuresInRow, 0)
  })

  it('an upstream counts as skipped when all its targets are', async (t) => {
    const target = (model: string) => ({
      targets: [
        { upstream: 'a', model },
        { upstream: 'b', model },
      ],
    })
    const models = { x: target('x'), y: target('y') }
    const here = await scene(t, { models, a: failing })
    await breakIt(here, 'x')
    const skippedUntil = () => here.router.state()[0]?.skippedUntilMs
    assert.equal(skippedUntil(), null)
    const first = here.clock.nowMs() + FIRST_SKIP_MS
    here.clock.advance(1000)
    await breakIt(here, 'y')
    assert.equal(skippedUntil(), first)
  })

  it('nobody waits at the gate of a target that is skipped', async (t) => {
    const { router, clock, a } = await scene(t, {
      a: (_request, index) => (index < FAILURES_TO_SKIP ? reply.stall(reply.status(503)) : reply.stall()),
      maxConcurrency: FAILURES_TO_SKIP,
    })
    const first = Array.from({ length: FAILURES_TO_SKIP }, () => router.ask(question('two'), never))
    await a.received(FAILURES_TO_SKIP)
    a.release()
    await Promise.all(first)
    // All places at a are taken by those who can go nowhere else.
    const alone = Array.from({ length: FAILURES_TO_SKIP }, () => router.ask(question('one'), never))
    await a.received(2 * FAILURES_TO_SKIP)
    assert.equal((await router.ask(question('two'), never)).target, 'b/n')
    a.release()
    await Promise.all(alone)
    assert.deepEqual(clock.pending(), [])
  })

  it('whoever waited at the gate of a target that broke meanwhile goes on to the next', async (t) => {
    const { router, a, b } = await scene(t, { a: () => reply.stall(reply.status(503)), maxConcurrency: 1 })
    const all = FAILURES_TO_SKIP + 7
    const asked = Array.from({ length: all }, () => router.ask(question('two'), never))
    await a.received(1)
    assert.equal(router.state()[0]?.waiting, all - 1)
    a.script = failing
    a.release()
    const routed = await Promise.all(asked)
    assert.ok(routed.every(({ target }) => target === 'b/n'))
    assert.equal(a.requests.length, FAILURES_TO_SKIP)
    assert.equal(b.requests.length, all)
  })
})
