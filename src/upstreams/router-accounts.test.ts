/** How the failing calls of one account affect other accounts. */
import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { isModelList, type Reply, reply, type Script } from '../../test/model-server.ts'
import {
  CALL_TIMEOUT_MS,
  modelRequest,
  never,
  passPauses,
  type RouterSetup,
  startRouter,
} from '../../test/support/router-setup.ts'
import { MAX_TRIES } from './call-target.ts'
import { FAILED_JOBS_TO_OPEN, FIRST_CHECK_MS } from './circuit-breaker.ts'
import { ROUNDS } from './router.ts'

const BAD = 'bad'

const withContent = (account: string, jobId: string) => {
  const messagesJson = JSON.stringify([{ role: 'user', content: account }])
  const prompt = { account, messagesJson, form: { kind: 'text' } } as const
  return modelRequest('one', { account, jobId, prompt })
}

const ask = ({ router }: RouterSetup, account: string, jobId = account) =>
  router.ask(withContent(account, jobId), never)

/** A server that answers the jobs of the account with this reply, and others as usual. */
const failingFor =
  (account: string, answer: Reply): Script =>
  (request) =>
    !isModelList(request) && request.body.messages[0]?.content === account ? answer : undefined

/** Runs so many failing jobs of the account that the account must wait. */
async function failJobs({ router }: RouterSetup, account: string, count = FAILED_JOBS_TO_OPEN) {
  for (let n = 0; n < count; n++) void router.ask(withContent(account, `${account} ${n}`), never)
  while (limitOf(router, account)?.allowance !== 0) await setImmediate()
}

const limitOf = (router: RouterSetup['router'], account: string) =>
  router.limitedAccounts.get('a/m')?.get(account)

const start = (t: TestContext, a: Script) =>
  startRouter(t, { a, isPatient: true, maxConcurrency: 64, findsConcurrency: true })

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
      const { router } = setup
      await failJobs(setup, BAD, 50)
      assert.equal((await ask(setup, BAD, 'later')).wait?.route, 'a/m')
      assert.equal(router.limited.size, 0)
      assert.deepEqual([...(router.limitedAccounts.get('a/m')?.keys() ?? [])], [BAD])
      const { reply: got, calls } = await ask(setup, 'good')
      assert.deepEqual([got.kind, calls.length], ['answer', 1])
      assert.equal(limitOf(router, 'good'), undefined)
    })
  }

  it('with timeouts does not lower the limit of concurrent calls for others', async (t) => {
    const setup = await start(t, failingFor(BAD, reply.stall()))
    const { router, clock, a } = setup
    const asked = Array.from({ length: 40 }, (_, n) => ask(setup, BAD, `bad ${n}`))
    await a.received(40)
    clock.advance(CALL_TIMEOUT_MS)
    await Promise.all(asked)
    assert.equal(limitOf(router, BAD)?.allowance, 0)
    assert.equal((await ask(setup, 'good')).reply.kind, 'answer')
    assert.equal(router.state()[0]?.limit, 64)
    assert.equal(limitOf(router, 'good'), undefined)
  })

  it('waits alone at its first target, even if nobody can reach the second', async (t) => {
    const setup = await start(t, failingFor(BAD, reply.status(500)))
    const { router, clock, b } = setup
    await b.close()
    const asked = router.ask({ ...withContent(BAD, BAD), model: 'two' }, never)
    await passPauses(clock, ROUNDS - 1)
    assert.ok((await asked).wait)
    assert.equal(limitOf(router, BAD)?.trouble?.status, 500)
    assert.equal(router.limited.get('a/m'), undefined)
    assert.equal(router.state()[1]?.targets[0]?.unavailable?.trouble.kind, 'unreachable')
  })

  it('is tried again after a check, one job at a time', async (t) => {
    const setup = await start(t, failingFor(BAD, reply.status(500)))
    const { router, clock } = setup
    await failJobs(setup, BAD)
    const changed = new Promise<void>((resolve) => router.watch(resolve))
    await clock.timerSet((ms) => ms === FIRST_CHECK_MS)
    clock.advance(FIRST_CHECK_MS)
    await changed
    const limit = limitOf(router, BAD)
    assert.deepEqual([limit?.allowance, limit?.failedJobs.length], [1, FAILED_JOBS_TO_OPEN])
  })
})

describe('a second account whose calls fail', () => {
  it('with timeouts lowers the limit of concurrent calls', async (t) => {
    const setup = await start(t, (request) => (isModelList(request) ? undefined : reply.stall()))
    const { router, clock, a } = setup
    const asked = Array.from({ length: 40 }, (_, n) => ask(setup, n % 2 ? 'one' : 'two', `job ${n}`))
    await a.received(40)
    clock.advance(CALL_TIMEOUT_MS)
    await Promise.all(asked)
    const { limit } = router.state()[0] ?? {}
    assert.ok(limit !== undefined && limit !== null && limit < 40, `${limit} calls at once`)
  })

  it('makes the target unavailable to all, and the trial of another account ends that', async (t) => {
    const setup = await start(t, (request) => (isModelList(request) ? undefined : reply.status(500)))
    const { router, clock, a } = setup
    await failJobs(setup, 'one')
    await failJobs(setup, 'two')
    assert.equal(router.limited.get('a/m')?.allowance, 0)
    const { calls, wait } = await ask(setup, 'three')
    assert.deepEqual([calls, wait?.trouble?.status], [[], 500])
    a.script = () => undefined
    const changed = new Promise<void>((resolve) =>
      router.watch(() => router.limited.get('a/m')?.allowance === 1 && resolve()),
    )
    clock.advance(FIRST_CHECK_MS)
    await changed
    assert.deepEqual([...(router.limitedAccounts.get('a/m')?.keys() ?? [])].sort(), ['one', 'two'])
    assert.equal((await ask(setup, 'three')).reply.kind, 'answer')
    assert.equal(router.limited.size, 0)
  })
})

describe('the room of a route', () => {
  it('is what its first target can start now, and an eighth more', async (t) => {
    const setup = await start(t, () => reply.stall())
    const { router, a } = setup
    assert.deepEqual([router.room('a/m'), router.room('unknown')], [64 + 8, Number.POSITIVE_INFINITY])
    const asked = Array.from({ length: 70 }, (_, n) => ask(setup, 'good', `job ${n}`))
    await a.received(64)
    assert.equal(router.room('a/m'), 8 - 6)
    a.script = () => undefined
    a.release()
    await Promise.all(asked)
  })

  it('is none while jobs that call one at a time hold half of the slots of the node', async (t) => {
    const setup = await startRouter(t, { a: () => reply.stall(), isPatient: true, slots: 8 })
    const { router, a } = setup
    const asked: Promise<unknown>[] = []
    const rooms: number[] = []
    for (let n = 0; n < 6; n++) {
      asked.push(router.ask(modelRequest('one', { jobId: `job ${n}`, tries: MAX_TRIES - 1 }), never))
      await a.received(1)
      rooms.push(router.room('a/m'))
    }
    assert.deepEqual(rooms, [17, 17, 17, 17, 0, 0])
    // Another route keeps its room although one of its jobs waits.
    asked.push(router.ask(modelRequest('two', { jobId: 'other', tries: MAX_TRIES - 1 }), never))
    const route = router.routeOf({ model: 'two', tier: 'user_max', inputTokens: 10 })
    assert.deepEqual(
      [router.waitingJobs().map(({ jobIds }) => jobIds.size), router.room(route)],
      [[5, 1], 17],
    )
    a.script = () => undefined
    a.release()
    await Promise.all(asked)
    assert.equal(router.room('a/m'), 18)
  })
})

describe('beforeCall', () => {
  it('is awaited once, before the first call and after the slot is acquired', async (t) => {
    const setup = await startRouter(t, { a: () => reply.status(500), isPatient: true })
    const seen: [requests: number, running: number | undefined][] = []
    const beforeCall = async () => {
      seen.push([setup.a.requests.length, setup.router.state()[0]?.running])
    }
    const asked = setup.router.ask(modelRequest('one', { beforeCall }), never)
    await passPauses(setup.clock, 2)
    await asked
    assert.deepEqual(seen, [[0, 1]])
  })

  it('is not followed by a call if the model server has become unavailable meanwhile', async (t) => {
    const setup = await startRouter(t, {
      a: () => reply.status(429, { headers: { 'retry-after': '30' } }),
      isPatient: true,
    })
    const started = Promise.withResolvers<void>()
    const asked = setup.router.ask(modelRequest('one', { beforeCall: () => started.promise }), never)
    await ask(setup, 'acme', 'another job')
    started.resolve()
    assert.ok((await asked).wait)
    assert.equal(setup.a.requests.length, 1)
  })
})
