/**
 * Tests that targets which keep failing are skipped until they respond again, first by the account whose calls fail, then by
 * all.
 */
import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { isModelList, type Reply, reply, type Script } from '../../test/model-server.ts'
import {
  ask,
  CALL_TIMEOUT_MS,
  callsOf,
  failing,
  passCheck,
  type RouterSetup,
  startRouter,
} from '../../test/support/router-setup.ts'
import { Stop } from '../job/stop.ts'
import { FAILED_JOBS_TO_OPEN, FIRST_CHECK_MS } from './circuit-breaker.ts'
import { ROUNDS } from './router.ts'

const BAD = 'bad'

/** The server answers the jobs of the account with this reply, and others as usual. */
const failingFor =
  (account: string, answer: Reply): Script =>
  (request) =>
    !isModelList(request) && request.body.messages[0]?.content === account ? answer : undefined

const askAs = (setup: RouterSetup, account: string, jobId = account, model = 'one') =>
  ask(setup, { account, content: account, jobId, model })

/** Runs so many failing jobs of the account that the account must wait. */
async function failJobs(setup: RouterSetup, account: string, count = FAILED_JOBS_TO_OPEN) {
  for (let n = 0; n < count; n++) void askAs(setup, account, `${account} ${n}`)
  while (limitOf(setup, account)?.allowance !== 0) await setImmediate()
}

const limitOf = ({ router }: RouterSetup, account: string) => router.limitedAccounts.get('a/m')?.get(account)
const limitedAccounts = ({ router }: RouterSetup) => [...(router.limitedAccounts.get('a/m')?.keys() ?? [])]

const start = (t: TestContext, a: Script) =>
  startRouter(t, { a, isPatient: true, maxConcurrency: 64, findsConcurrency: true })

/** Sends 40 jobs of these accounts in turn to a server that stalls, and lets them time out. */
async function timeOut(setup: RouterSetup, ...accounts: readonly string[]) {
  const asked = Array.from({ length: 40 }, (_, n) =>
    askAs(setup, accounts[n % accounts.length] ?? '', `${n}`),
  )
  await setup.a.received(40)
  setup.clock.advance(CALL_TIMEOUT_MS)
  await Promise.all(asked)
}

describe('an account whose calls fail', () => {
  for (const [name, answer] of [
    ['403', reply.status(403)],
    ['500', reply.status(500)],
    ['502', reply.status(502)],
    ['a reset', reply.reset()],
    ['503 with Retry-After', reply.status(503, { headers: { 'retry-after': '3600' } })],
  ] as const) {
    it(`with ${name} waits alone; others are answered at once`, async (t) => {
      const setup = await start(t, failingFor(BAD, answer))
      await failJobs(setup, BAD, 50)
      assert.equal((await askAs(setup, BAD, 'later')).wait?.route, 'a/m')
      assert.equal(setup.router.limited.size, 0)
      const { reply: got, calls } = await askAs(setup, 'good')
      assert.deepEqual([got.kind, calls.length], ['answer', 1])
      assert.deepEqual(limitedAccounts(setup), [BAD])
    })
  }

  it('with timeouts does not lower the limit of concurrent calls for others', async (t) => {
    const setup = await start(t, failingFor(BAD, reply.stall()))
    await timeOut(setup, BAD)
    assert.equal(limitOf(setup, BAD)?.allowance, 0)
    assert.equal((await askAs(setup, 'good')).reply.kind, 'answer')
    assert.equal(setup.router.state()[0]?.limit, 64)
    assert.deepEqual(limitedAccounts(setup), [BAD])
  })

  it('waits alone at its first target, even if nobody can reach the second', async (t) => {
    const setup = await start(t, failingFor(BAD, reply.status(500)))
    await setup.b.close()
    assert.ok((await ask(setup, { account: BAD, content: BAD, model: 'two', pauses: ROUNDS - 1 })).wait)
    assert.equal(limitOf(setup, BAD)?.trouble?.status, 500)
    assert.equal(setup.router.limited.get('a/m'), undefined)
    assert.equal(setup.router.state()[1]?.targets[0]?.unavailable?.trouble.kind, 'unreachable')
  })

  it('is tried again after a check, one job at a time', async (t) => {
    const setup = await start(t, failingFor(BAD, reply.status(500)))
    await failJobs(setup, BAD)
    await passCheck(setup)
    const limit = limitOf(setup, BAD)
    assert.deepEqual([limit?.allowance, limit?.failedJobs.length], [1, FAILED_JOBS_TO_OPEN])
  })
})

describe('a second account whose calls fail', () => {
  const script =
    (answer: Reply): Script =>
    (request) =>
      isModelList(request) ? undefined : answer

  it('with timeouts lowers the limit of concurrent calls', async (t) => {
    const setup = await start(t, script(reply.stall()))
    await timeOut(setup, 'one', 'two')
    const { limit } = setup.router.state()[0] ?? {}
    assert.ok(limit !== undefined && limit !== null && limit < 40, `${limit} calls at once`)
  })

  it('makes the target unavailable to all, and the trial of another account ends that', async (t) => {
    const setup = await start(t, script(reply.status(500)))
    const { router, a } = setup
    await failJobs(setup, 'one')
    await failJobs(setup, 'two')
    assert.equal(router.limited.get('a/m')?.allowance, 0)
    const { calls, wait } = await askAs(setup, 'three')
    assert.deepEqual([calls, wait?.trouble?.status], [[], 500])
    a.script = () => undefined
    await passCheck(setup)
    assert.equal(router.limited.get('a/m')?.allowance, 1)
    assert.deepEqual(limitedAccounts(setup).sort(), ['one', 'two'])
    assert.equal((await askAs(setup, 'three')).reply.kind, 'answer')
    assert.equal(router.limited.size, 0)
  })
})

describe('the circuit breaker', () => {
  const askAll = (setup: RouterSetup, model: string, count = FAILED_JOBS_TO_OPEN) =>
    Array.from({ length: count }, (_, n) => ask(setup, { model, jobId: `job ${n}` }))

  /** Starts a router whose target a/m is unavailable, although the next target answered the jobs that failed there. */
  async function startOpen(t: TestContext) {
    const setup = await startRouter(t, { a: failing, isPatient: true })
    await Promise.all(askAll(setup, 'two'))
    return setup
  }

  async function passCheckOf(setup: RouterSetup) {
    setup.a.script = () => undefined
    await passCheck(setup)
  }

  it('of a target that keeps failing opens, permits one call after a check, and closes again', async (t) => {
    const setup = await startOpen(t)
    const { router, clock, a } = setup
    assert.equal(a.requests.length, FAILED_JOBS_TO_OPEN)
    const state = router.state().find(({ name }) => name === 'a')
    const openUntilMs = clock.nowMs() + FIRST_CHECK_MS
    const trouble = { kind: 'overloaded', status: 503, message: 'It answers 503.' }
    assert.equal(state?.openUntilMs, openUntilMs)
    assert.deepEqual(state?.targets, [
      {
        model: 'm',
        consecutiveFailures: FAILED_JOBS_TO_OPEN,
        openUntilMs,
        learnedRoles: null,
        limitedAccounts: 1,
        unavailable: { sinceMs: clock.nowMs(), trouble },
      },
    ])
    assert.deepEqual(callsOf(await ask(setup, { model: 'two' }), 'target'), ['b/n'])
    await passCheckOf(setup)
    for (let n = 0; n < 2; n++) assert.equal((await ask(setup, { model: 'two' })).target, 'a/m')
    assert.equal(router.state()[0]?.openUntilMs, null)
  })

  it('is not shown for longer than a minute while checks succeed and there is no job to try', async (t) => {
    const setup = await startOpen(t)
    await passCheckOf(setup)
    const isShown = () => setup.router.state()[0]?.targets[0]?.unavailable !== null
    setup.clock.advance(60_000)
    assert.equal(isShown(), true)
    setup.clock.advance(1)
    assert.equal(isShown(), false)
  })

  it('while one call probes, the others use the next target', async (t) => {
    const setup = await startOpen(t)
    await passCheckOf(setup)
    setup.a.script = () => reply.stall()
    const probe = ask(setup, { model: 'two' })
    await setup.a.received(FAILED_JOBS_TO_OPEN + 2)
    assert.equal((await ask(setup, { model: 'two' })).target, 'b/n')
    setup.a.release()
    assert.equal((await probe).target, 'a/m')
  })

  it('without patience, when all are open, the targets are called nevertheless', async (t) => {
    const setup = await startRouter(t, { a: failing, b: failing })
    const { router, a, b } = setup
    assert.equal((await ask(setup, { model: 'two', pauses: ROUNDS - 1 })).wait, undefined)
    assert.ok(router.state().every(({ openUntilMs }) => openUntilMs !== null))
    assert.equal(router.limited.size, 0, 'the queue holds no job back')
    b.script = () => undefined
    const before = a.requests.length
    assert.equal((await ask(setup, { model: 'two' })).target, 'b/n')
    assert.equal(a.requests.length, before + 1)
    assert.equal(router.state()[1]?.openUntilMs, null, 'a success closes it')
  })

  it('ignores calls that we aborted', async (t) => {
    const setup = await startRouter(t, { a: () => reply.stall() })
    for (let n = 1; n <= FAILED_JOBS_TO_OPEN + 1; n++) {
      const signal = new Stop()
      const asked = ask(setup, { jobId: `job ${n}`, signal })
      await setup.a.received(n)
      signal.now('release')
      await asked
    }
    assert.equal(setup.router.state()[0]?.targets[0]?.consecutiveFailures, 0)
  })

  it('of an upstream counts as open when those of all its targets are', async (t) => {
    const target = (model: string) => ({ targets: ['a', 'b'].map((upstream) => ({ upstream, model })) })
    const setup = await startRouter(t, { models: { x: target('x'), y: target('y') }, a: failing })
    const { router, clock } = setup
    await Promise.all(askAll(setup, 'x'))
    assert.equal(router.state()[0]?.openUntilMs, null)
    const first = clock.nowMs() + FIRST_CHECK_MS
    clock.advance(FIRST_CHECK_MS / 2)
    await Promise.all(askAll(setup, 'y'))
    assert.equal(router.state()[0]?.openUntilMs, first)
  })

  it('while it is open, no request waits for a slot at the target', async (t) => {
    const setup = await startRouter(t, {
      a: (_request, index) => (index < FAILED_JOBS_TO_OPEN ? reply.stall(reply.status(503)) : reply.stall()),
      maxConcurrency: FAILED_JOBS_TO_OPEN,
    })
    const { clock, a } = setup
    const first = askAll(setup, 'two')
    await a.received(FAILED_JOBS_TO_OPEN)
    a.release()
    await Promise.all(first)
    // Requests that have no other target hold all slots at upstream a.
    const alone = askAll(setup, 'one')
    await a.received(2 * FAILED_JOBS_TO_OPEN)
    assert.equal((await ask(setup, { model: 'two' })).target, 'b/n')
    a.release()
    await Promise.all(alone)
    assert.deepEqual(clock.pending(), [], 'their success ends the wait')
  })

  it('that opens while requests wait for a slot sends them to the next target', async (t) => {
    const setup = await startRouter(t, { a: () => reply.stall(reply.status(503)), maxConcurrency: 1 })
    const { router, a, b } = setup
    const all = FAILED_JOBS_TO_OPEN + 7
    const asked = askAll(setup, 'two', all)
    await a.received(1)
    assert.equal(router.state()[0]?.waiting, all - 1)
    a.script = failing
    a.release()
    for (const { target } of await Promise.all(asked)) assert.equal(target, 'b/n')
    assert.deepEqual([a.requests.length, b.requests.length], [FAILED_JOBS_TO_OPEN, all])
  })
})
