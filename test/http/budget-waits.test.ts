/** Tests caps in money with `over_cap: wait`: a job that doesn't fit in the cap is accepted, and stays queued until it fits. */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { type Reply, reply } from '../model-server.ts'
import { onEachStore, storeName } from '../on-each-store.ts'
import { ADMIN_TOKEN, type Answer, job, type Parley } from '../parley.ts'
import { NO_CAPS } from '../store-contract/fixtures.ts'
import { metric } from '../support/outage.ts'
import { type Caller, MESSAGES, type Scene, startScene } from './caller.ts'
import { completed, failed, granted, refused, timedOut } from './expect.ts'
import { answering, billing, newestSeed, priced, pricedSettings } from './priced-jobs.ts'
import { startStage, stopAtOnce } from './stage.ts'

const LOOK_MS = 1000
const MONTH_MS = 31 * 86_400_000
const STALL = () => reply.stall(answering(40))

const settingsOf = (cap: number, jobs: object = {}) => ({
  ...pricedSettings('user_max', cap, { over_cap: 'wait' }),
  jobs: { patience_seconds: 60, run_timeout_seconds: 60, ...jobs },
})
const start = (t: TestContext, cap: number, script: () => Reply, jobs: object = {}) =>
  startScene(t, { settings: settingsOf(cap, jobs), script, account: 'acme' })
const ADMIN = { authorization: `Bearer ${ADMIN_TOKEN}` }

async function until(
  t: { signal: AbortSignal },
  { clock }: Pick<Scene, 'clock'>,
  read: () => Promise<Answer>,
  isWanted: (data: Answer['body']) => boolean,
): Promise<Answer> {
  for (;;) {
    const answer = await read()
    if (isWanted(answer.body.data)) return answer
    t.signal.throwIfAborted()
    clock.advance(LOOK_MS)
  }
}

const untilEnded = (t: TestContext, scene: Pick<Scene, 'clock'>, caller: Caller, id: string | undefined) =>
  until(
    t,
    scene,
    () => caller.read(id),
    ({ status }) => status === 'completed' || status === 'failed',
  )

const untilUsage = (t: TestContext, scene: Scene, isWanted: (me: Answer['body']) => boolean) =>
  until(t, scene, () => scene.caller.get('/api/v1/me'), isWanted)

async function waits(caller: Caller, id: string | undefined): Promise<boolean> {
  const data = granted(await caller.read(id, '?include=usage'), 200)
  assert.equal('waiting_for' in data, data.waiting_for === 'budget')
  if (data.waiting_for === undefined) return false
  assert.deepEqual([data.status, data.usage], ['pending', null])
  return true
}

onEachStore(() => {
  test('jobs over the cap wait, those behind them too, and start when others cost less than they may', async (t) => {
    const { parley, caller, models } = await start(t, 0.01, STALL)
    const [first] = await caller.enqueue([priced(900)])
    const later = [
      ...(await caller.enqueue([priced(200), priced(600)])),
      ...(await caller.enqueue([priced(50)])),
    ]
    const ids = [first, ...later]
    const states = async () => Promise.all(ids.map((id) => waits(caller, id)))
    assert.deepEqual(await states(), [false, true, true, true])
    const listed = granted(await caller.get(`${MESSAGES}?ids=${ids.join(',')}&include=usage`), 200)
    assert.deepEqual(
      listed.jobs.map(({ waiting_for }: { waiting_for?: string }) => waiting_for),
      [undefined, 'budget', 'budget', 'budget'],
    )
    assert.equal('waiting_for' in granted(await caller.read(later[0]), 200), false)
    const shown = granted(await parley.get(`/admin/api/jobs/${later[0]}`, undefined, ADMIN), 200)
    assert.equal(shown.waiting_for_budget, true)
    assert.equal((await caller.me()).reserved_cost, 9000)
    // A job that costs more than the whole cap is rejected, because it could never start. A free job starts at once.
    refused(await caller.post(MESSAGES, priced(1001)), 403)
    refused(await caller.batch([priced(10), priced(1001)]), 403)
    const free = await caller.enqueueOne({ model: 'free' })
    await models.received(2)
    models.script = () => reply.stall(answering(200))
    models.release()
    for (const id of [free, first]) completed(await caller.ended(id))
    // 400 have been spent, so the jobs that reserve 2000, 6000 and 500 all fit.
    await models.received(5)
    assert.deepEqual(await states(), [false, false, false, false])
    models.release()
    for (const id of later) completed(await caller.ended(id))
    const { usage, reserved_cost } = await caller.me()
    assert.deepEqual([usage.cost, reserved_cost], [400 + 3 * 2000, 0])
  })

  if (storeName() === 'Postgres') {
    test('a node that only serves HTTP lets no job overtake those that wait', async (t) => {
      const scene = await start(t, 0.01, STALL)
      const { parley } = await startStage(t, { settings: settingsOf(0.01), after: scene, role: 'api' })
      const caller = scene.caller.at(parley)
      for (const [tokens, isWaiting] of [
        [900, false],
        [200, true],
        [50, true],
      ] as const) {
        const [id] = await caller.enqueue([priced(tokens)])
        assert.equal(await waits(caller, id), isWaiting)
      }
    })
  }

  test('they wait for the next month, through a restart, and neither patience nor run timeouts pass', async (t) => {
    const before = await start(t, 0.001, () => answering(100))
    completed(await before.caller.post(MESSAGES, priced(100)))
    const [low] = await before.caller.enqueue([priced(60, { priority: 'low' })])
    const waiting = before.caller.post(MESSAGES, priced(60, { timeout: 30 }))
    await before.clock.timerSet((ms) => ms === 30_000)
    before.clock.advance(30_000)
    const id = timedOut(await waiting)
    const [high] = await before.caller.enqueue([priced(60, { priority: 'high' })])
    before.clock.advance(3_600_000)
    await stopAtOnce(before)
    const stage = await startStage(t, { settings: settingsOf(0.001), after: before })
    const caller = before.caller.at(stage.parley)
    stage.clock.advance(LOOK_MS)
    for (const one of [low, id, high]) assert.ok(await waits(caller, one))
    const order: string[] = []
    stage.models.script = ({ body }) => {
      order.push(String(body.seed))
      return answering(10)
    }
    stage.clock.advance(MONTH_MS)
    for (const one of [high, id, low]) completed(await untilEnded(t, stage, caller, one))
    // Each of these jobs reserves more than half of the cap, so they run one at a time, in the order of their priorities.
    assert.deepEqual(
      order,
      [0, 1, 2].map((earlier) => String(newestSeed() - earlier)),
    )
  })

  test('of hundreds of concurrent creates, those beyond the cap wait, and costs are what the server counted', async (t) => {
    const { script, cost } = billing()
    const scene = await start(t, 0.002, script)
    const { parley, caller } = scene
    const batch = () => caller.enqueue(Array.from({ length: 30 }, () => priced(7)))
    const ids = (await Promise.all(Array.from({ length: 10 }, batch))).flat()
    // A job may cost up to 70, so jobs must start until less than that is left of the cap.
    await untilUsage(t, scene, ({ usage, reserved_cost }) => reserved_cost === 0 && usage.cost > 2000 - 70)
    assert.ok(cost() <= 2000, `${cost()}`)
    const { usage } = await caller.me()
    assert.equal(usage.cost, cost())
    assert.equal((await parley.store.areOverBudget(ids)).length, 300 - usage.jobs)
    await parley.store.setCaps('acme', { ...NO_CAPS, monthlyCost: 'none' })
    await untilUsage(t, scene, ({ usage }) => usage.jobs === 300)
    assert.equal((await caller.me()).usage.cost, cost())
  })

  test('they are not in the length of the queue, nor is their age that of its oldest job', async (t) => {
    const { parley, caller, clock, models } = await start(t, 0.001, STALL, { concurrency: 1 })
    const queue = async (of: Parley) => [
      await metric(of, 'parley_queue_jobs'),
      await metric(of, 'parley_queue_oldest_age_seconds'),
    ]
    await caller.enqueue([priced(90)])
    await models.received(1)
    const [waiting] = await caller.enqueue([priced(20)])
    assert.ok(await waits(caller, waiting))
    clock.advance(10_000)
    assert.deepEqual(await queue(parley), [0, 0])
    await caller.enqueue([job({ model: 'free' })])
    clock.advance(5_000)
    assert.deepEqual(await queue(parley), [1, 5])
  })

  test('a higher cap starts them, and so does none', async (t) => {
    const scene = await start(t, 0, () => answering(1))
    const { parley, caller, clock } = scene
    const setCap = (monthlyCost: number | 'none') => parley.store.setCaps('acme', { ...NO_CAPS, monthlyCost })
    refused(await caller.post(MESSAGES, priced(1)), 403)
    await setCap(10)
    clock.advance(2000)
    completed(await caller.post(MESSAGES, priced(1)))
    const [first, second] = await caller.enqueue([priced(1), priced(1)])
    for (const id of [first, second]) assert.ok(await waits(caller, id))
    await setCap(20)
    completed(await untilEnded(t, scene, caller, first))
    assert.ok(await waits(caller, second))
    await setCap('none')
    completed(await untilEnded(t, scene, caller, second))
  })

  test('a deadline, its caller and an operator end a job that waits, at no cost', async (t) => {
    const scene = await start(t, 0.00001, () => answering(1))
    const { parley, caller, models, clock } = scene
    completed(await caller.post(MESSAGES, priced(1)))
    const jobs = [priced(1, { complete_within: 5 }), priced(1), priced(1)]
    const [late, own, cancelled] = await caller.enqueue(jobs)
    granted(await caller.cancel(own), 200)
    granted(await parley.post(`/admin/api/jobs/${cancelled}/cancel`, {}, undefined, ADMIN), 200)
    assert.equal(failed(await untilEnded(t, scene, caller, late)).code, 'deadline_exceeded')
    const { usage, reserved_cost } = await caller.me()
    assert.deepEqual([usage.jobs, usage.cost, reserved_cost], [4, 10, 0])
    assert.equal(models.requests.length, 1)
    clock.advance(MONTH_MS)
    completed(await caller.post(MESSAGES, priced(1)))
  })
})
