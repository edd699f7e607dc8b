/** Tests caps in money with `over_cap: wait`: a job that doesn't fit in the cap is accepted, and stays queued until it fits. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { type Reply, reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { ADMIN_TOKEN, type Answer, job, type Parley } from '../parley.ts'
import { NO_CAPS } from '../store-contract/fixtures.ts'
import { metric } from '../support/outage.ts'
import { completed, enqueued, failed, granted, refused, timedOut } from './expect.ts'
import { type Stage, startStage, stopAtOnce, UNLIMITED_READS } from './stage.ts'

const MESSAGES = '/api/v1/messages'
const BATCHES = `${MESSAGES}/batches`
const LOOK_MS = 1000
const MONTH_MS = 31 * 86_400_000
/** Input is free, so that the reserved costs of jobs are round numbers. */
const settings = (cap: number) => ({
  currency: 'EUR',
  models: {
    priced: { price: { input: 0, output: 10 }, targets: [{ upstream: 'openai', model: 'one' }] },
    free: { targets: [{ upstream: 'openai', model: 'free' }] },
  },
  jobs: { patience_seconds: 60, run_timeout_seconds: 60 },
  tiers: {
    ...UNLIMITED_READS,
    user_max: { ...UNLIMITED_READS.user_max, max_monthly_cost: cap, over_cap: 'wait' },
  },
})
let seed = 0
/** Creates a job that reserves 10 * `tokens` millionths of the currency. */
const ask = (tokens: number, over = {}) =>
  job({ model: 'priced', options: { max_tokens: tokens, seed: ++seed }, ...over })
const answering = (tokens: number): Reply =>
  reply.status(200, {
    body: {
      choices: [{ index: 0, message: { role: 'assistant', content: 'Amur' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 30, completion_tokens: tokens, total_tokens: 30 + tokens },
    },
  })

/** Advances the clock until a response satisfies the condition; returns that response. */
async function until(
  t: { signal: AbortSignal },
  { clock }: Stage,
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

const hasEnded = ({ status }: { status: string }) => status === 'completed' || status === 'failed'
const reading = (parley: Parley, id: string | undefined, key: string) => () =>
  parley.get(`${MESSAGES}/${id}`, key)

async function waits(parley: Parley, id: string | undefined, key: string): Promise<boolean> {
  const data = granted(await parley.get(`${MESSAGES}/${id}?include=usage`, key), 200)
  assert.equal('waiting_for' in data, data.waiting_for === 'budget')
  if (data.waiting_for === undefined) return false
  assert.deepEqual([data.status, data.usage], ['pending', null])
  return true
}

onEachStore(() => {
  test('jobs over the cap wait, those behind them too, and start when others cost less than they may', async (t) => {
    const stage = await startStage(t, { settings: settings(0.01), script: () => reply.stall(answering(40)) })
    const { parley, models } = stage
    const key = await parley.key()
    const [first] = enqueued(await parley.post(BATCHES, [ask(900)], key), 1)
    const [second, third] = enqueued(await parley.post(BATCHES, [ask(200), ask(600)], key), 2)
    const [fourth] = enqueued(await parley.post(BATCHES, [ask(50)], key), 1)
    const ids = [first, second, third, fourth]
    const states = async () => Promise.all(ids.map((id) => waits(parley, id, key)))
    assert.deepEqual(await states(), [false, true, true, true])
    const listed = granted(await parley.get(`${MESSAGES}?ids=${ids.join(',')}&include=usage`, key), 200)
    assert.deepEqual(
      listed.jobs.map(({ waiting_for }: { waiting_for?: string }) => waiting_for),
      [undefined, 'budget', 'budget', 'budget'],
    )
    assert.equal('waiting_for' in granted(await parley.get(`${MESSAGES}/${second}`, key), 200), false)
    const admin = { authorization: `Bearer ${ADMIN_TOKEN}` }
    const shown = granted(await parley.get(`/admin/api/jobs/${second}`, undefined, admin), 200)
    assert.equal(shown.waiting_for_budget, true)
    assert.equal(granted(await parley.get('/api/v1/me', key), 200).reserved_cost, 9000)
    // A job that costs more than the whole cap is rejected, because it could never start. A free job starts at once.
    refused(await parley.post(MESSAGES, ask(1001), key), 403)
    refused(await parley.post(BATCHES, [ask(10), ask(1001)], key), 403)
    const [free] = enqueued(await parley.post(BATCHES, [job({ model: 'free' })], key), 1)
    await models.received(2)
    models.script = () => reply.stall(answering(200))
    models.release()
    completed(await parley.ended(free ?? '', key))
    completed(await parley.ended(first ?? '', key))
    // 400 have been spent, so the jobs that reserve 2000, 6000 and 500 all fit.
    await models.received(5)
    assert.deepEqual(await states(), [false, false, false, false])
    models.release()
    for (const id of [second, third, fourth]) completed(await parley.ended(id ?? '', key))
    const me = granted(await parley.get('/api/v1/me', key), 200)
    assert.deepEqual([me.usage.cost, me.reserved_cost], [400 + 3 * 2000, 0])
  })

  test('a node that only serves HTTP lets no job overtake those that wait', async (t) => {
    const stage = await startStage(t, { settings: settings(0.01), script: () => reply.stall(answering(40)) })
    if (!stage.parley.database.startsWith('postgres')) return t.skip('a file has one node')
    const { parley } = await startStage(t, { settings: settings(0.01), after: stage, role: 'api' })
    const key = await parley.key()
    for (const [tokens, isWaiting] of [
      [900, false],
      [200, true],
      [50, true],
    ] as const) {
      const [id] = enqueued(await parley.post(BATCHES, [ask(tokens)], key), 1)
      assert.equal(await waits(parley, id, key), isWaiting)
    }
  })

  test('they wait for the next month, through a restart, and neither patience nor run timeouts pass', async (t) => {
    const before = await startStage(t, { settings: settings(0.001), script: () => answering(100) })
    const key = await before.parley.key()
    completed(await before.parley.post(MESSAGES, ask(100), key))
    const [low] = enqueued(await before.parley.post(BATCHES, [ask(60, { priority: 'low' })], key), 1)
    const id = timedOut(await answerOf(before, before.parley.post(MESSAGES, ask(60, { timeout: 30 }), key)))
    const [high] = enqueued(await before.parley.post(BATCHES, [ask(60, { priority: 'high' })], key), 1)
    before.clock.advance(3_600_000)
    await stopAtOnce(before)
    const stage = await startStage(t, { settings: settings(0.001), after: before })
    const { parley, clock, models } = stage
    clock.advance(LOOK_MS)
    for (const one of [low, id, high]) assert.ok(await waits(parley, one, key))
    const order: string[] = []
    models.script = ({ body }) => {
      order.push(String(body.seed))
      return answering(10)
    }
    clock.advance(MONTH_MS)
    for (const one of [high, id, low]) completed(await until(t, stage, reading(parley, one, key), hasEnded))
    // Each of these jobs reserves more than half of the cap, so they run one at a time, in the order of their priorities.
    assert.deepEqual(order, [String(seed), String(seed - 1), String(seed - 2)])
  })

  test('of hundreds of concurrent creates, those beyond the cap wait, and costs are what the server counted', async (t) => {
    let paid = 0
    const script = () => {
      const tokens = 1 + (paid % 7)
      paid += 10 * tokens
      return answering(tokens)
    }
    const stage = await startStage(t, { settings: settings(0.002), script })
    const { parley } = stage
    const key = await parley.key('user_max', 'acme')
    const batch = () =>
      parley.post(
        BATCHES,
        Array.from({ length: 30 }, () => ask(7)),
        key,
      )
    const answers = await Promise.all(Array.from({ length: 10 }, batch))
    const ids = answers.flatMap((answer) => enqueued(answer, 30))
    const me = async () => granted(await parley.get('/api/v1/me', key), 200)
    // What is left of the cap is less than 70, the most that a job may cost.
    const isSpent = ({ usage, reserved_cost }: Answer['body']) =>
      reserved_cost === 0 && usage.cost > 2000 - 70
    await until(t, stage, () => parley.get('/api/v1/me', key), isSpent)
    assert.ok(paid <= 2000, `${paid}`)
    assert.equal((await me()).usage.cost, paid)
    assert.equal((await parley.store.areOverBudget(ids)).length, 300 - (await me()).usage.jobs)
    await parley.store.setCaps('acme', { ...NO_CAPS, monthlyCost: 'none' })
    await until(
      t,
      stage,
      () => parley.get('/api/v1/me', key),
      ({ usage }) => usage.jobs === 300,
    )
    assert.equal((await me()).usage.cost, paid)
  })

  test('they are not in the length of the queue, nor is their age that of its oldest job', async (t) => {
    const { jobs, ...others } = settings(0.001)
    const { parley, clock, models } = await startStage(t, {
      settings: { ...others, jobs: { ...jobs, concurrency: 1 } },
      script: () => reply.stall(answering(1)),
    })
    const key = await parley.key()
    const queue = () =>
      Promise.all(
        ['parley_queue_jobs', 'parley_queue_oldest_age_seconds'].map((name) => metric(parley, name)),
      )
    enqueued(await parley.post(BATCHES, [ask(90)], key), 1)
    await models.received(1)
    const [waiting] = enqueued(await parley.post(BATCHES, [ask(20)], key), 1)
    assert.ok(await waits(parley, waiting, key))
    clock.advance(10_000)
    assert.deepEqual(await queue(), [0, 0])
    enqueued(await parley.post(BATCHES, [job({ model: 'free' })], key), 1)
    clock.advance(5_000)
    assert.deepEqual(await queue(), [1, 5])
  })

  test('a higher cap starts them, and so does none', async (t) => {
    const stage = await startStage(t, { settings: settings(0), script: () => answering(1) })
    const { parley } = stage
    const key = await parley.key('user_max', 'acme')
    refused(await parley.post(MESSAGES, ask(1), key), 403)
    await parley.store.setCaps('acme', { ...NO_CAPS, monthlyCost: 10 })
    stage.clock.advance(2000)
    completed(await parley.post(MESSAGES, ask(1), key))
    const ids = enqueued(await parley.post(BATCHES, [ask(1), ask(1)], key), 2)
    for (const id of ids) assert.ok(await waits(parley, id, key))
    await parley.store.setCaps('acme', { ...NO_CAPS, monthlyCost: 20 })
    completed(await until(t, stage, reading(parley, ids[0], key), hasEnded))
    assert.ok(await waits(parley, ids[1], key))
    await parley.store.setCaps('acme', { ...NO_CAPS, monthlyCost: 'none' })
    completed(await until(t, stage, reading(parley, ids[1], key), hasEnded))
  })

  test('a deadline, its caller and an operator end a job that waits, at no cost', async (t) => {
    const stage = await startStage(t, { settings: settings(0.00001), script: () => answering(1) })
    const { parley, models } = stage
    const key = await parley.key()
    completed(await parley.post(MESSAGES, ask(1), key))
    const [late, own, cancelled] = enqueued(
      await parley.post(BATCHES, [ask(1, { complete_within: 5 }), ask(1), ask(1)], key),
      3,
    )
    granted(await parley.post(`${MESSAGES}/${own}/cancel`, {}, key), 200)
    const admin = { authorization: `Bearer ${ADMIN_TOKEN}` }
    granted(await parley.post(`/admin/api/jobs/${cancelled}/cancel`, {}, undefined, admin), 200)
    const end = await until(t, stage, reading(parley, late, key), hasEnded)
    assert.equal(failed(end).code, 'deadline_exceeded')
    const { usage, reserved_cost } = granted(await parley.get('/api/v1/me', key), 200)
    assert.deepEqual([usage.jobs, usage.cost, reserved_cost], [4, 10, 0])
    assert.equal(models.requests.length, 1)
    stage.clock.advance(MONTH_MS)
    completed(await parley.post(MESSAGES, ask(1), key))
  })
})

/** Resolves with the response of a request that waits for its job; advances the clock to the end of that wait. */
async function answerOf({ clock }: Stage, answer: Promise<Answer>): Promise<Answer> {
  await clock.timerSet((ms) => ms === 30_000)
  clock.advance(30_000)
  return answer
}
