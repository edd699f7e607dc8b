/**
 * Tests `priority` of a job: higher priorities start first, within an account and between accounts, and low ones still get a
 * twentieth.
 */
import assert from 'node:assert/strict'
import test from 'node:test'
import { PRIORITIES, type Priority } from '../../src/job/priority.ts'
import type { ModelServerForTests, Received } from '../model-server.ts'
import { isModelList, reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job, type Parley } from '../parley.ts'
import { BATCHES, completions, createBatches, MESSAGES, ONE_SLOT, withContent } from '../support/outage.ts'
import { adminOf } from './admin/admin.ts'
import { enqueued, granted, invalid, refused } from './expect.ts'
import { startStage, stopAtOnce } from './stage.ts'

const ONE_CALL = { settings: ONE_SLOT, findsConcurrency: true }
/** The number of low jobs that already wait at the model server when another job is created. */
const ON_THEIR_WAY = 2

const contentOf = ({ body }: Received) => String(body.messages?.at(-1)?.content)
const called = (models: ModelServerForTests) => models.completions().map(contentOf)

let made = 0
const jobs = (count: number, priority?: Priority) =>
  Array.from({ length: count }, () =>
    withContent(`${priority ?? 'normal'} ${made++}`, priority === undefined ? {} : { priority }),
  )

/** Lets the model server hold each call, so that jobs created in the meantime are queued. */
function stall(models: ModelServerForTests): void {
  models.script = (request) => (isModelList(request) ? undefined : reply.stall())
}

/** Releases calls one by one until this many have been made; returns the contents of the calls in their order. */
async function untilCalled(
  t: { signal: AbortSignal },
  parley: Parley,
  models: ModelServerForTests,
  count: number,
) {
  while (completions(models) < count) {
    t.signal.throwIfAborted()
    if (models.running() > 0) models.releaseNext()
    await parley.get('/readyz')
  }
  return called(models)
}

/** Resolves when this many jobs wait for a place at the model server. */
async function callsWait(t: { signal: AbortSignal }, parley: Parley, count: number): Promise<void> {
  const line = new RegExp(`^parley_upstream_calls\\{[^}]*state="waiting"\\} ${count}$`, 'm')
  while (!line.test((await parley.get('/metrics')).text)) t.signal.throwIfAborted()
}

async function busy(parley: Parley, models: ModelServerForTests, key: string): Promise<void> {
  stall(models)
  await createBatches({ parley }, key, jobs(1, 'low'))
  while (completions(models) === 0) await parley.get('/readyz')
}

onEachStore(() => {
  test('a high job is the next of 10,000 low ones to start, also after a restart', async (t) => {
    const first = await startStage(t, ONE_CALL)
    const key = await first.parley.key()
    await busy(first.parley, first.models, key)
    await createBatches(first, key, jobs(10_000, 'low'))
    await createBatches(first, key, jobs(1, 'high'))
    // The two waiting jobs are a low one and the high one. Before the high one waits here, a second low one could still
    // overtake it.
    await callsWait(t, first.parley, 2)
    const order = await untilCalled(t, first.parley, first.models, 2)
    assert.equal(order[1]?.split(' ')[0], 'high')
    await createBatches(first, key, jobs(1, 'normal'))
    await stopAtOnce(first)
    const before = completions(first.models)
    const { parley, models } = await startStage(t, { ...ONE_CALL, after: first })
    const next = (await untilCalled(t, parley, models, before + 1 + ON_THEIR_WAY)).slice(before)
    assert.ok(
      next.some((content) => content.startsWith('normal')),
      String(next),
    )
  })

  test('higher jobs start first, within an account and between accounts of the same tier', async (t) => {
    const { parley, models } = await startStage(t, ONE_CALL)
    const [one, other] = [await parley.key('user_max', 'one'), await parley.key('user_max', 'other')]
    await busy(parley, models, one)
    for (const priority of PRIORITIES.toReversed()) {
      await createBatches({ parley }, one, jobs(5, priority))
      await createBatches({ parley }, other, jobs(5, priority))
    }
    const order = (await untilCalled(t, parley, models, 31)).map((content) => content.split(' ')[0])
    // One job of each lower priority was already on its way, or had its turn because nineteen others had started before it.
    const wrong = order.slice(1, 11).filter((priority) => priority !== 'high').length
    assert.ok(wrong <= ON_THEIR_WAY, String(order))
    assert.ok(
      order.slice(-7).every((priority) => priority === 'low'),
      String(order),
    )
  })

  test('while high jobs never end, low and normal ones get a twentieth each', async (t) => {
    const { parley, models } = await startStage(t, ONE_CALL)
    const key = await parley.key()
    await busy(parley, models, key)
    for (const priority of ['low', 'normal', 'high'] as const) {
      await createBatches({ parley }, key, jobs(priority === 'high' ? 250 : 30, priority))
    }
    const order = (await untilCalled(t, parley, models, 204)).slice(4)
    const count = (priority: Priority) => order.filter((content) => content.startsWith(priority)).length
    for (const priority of ['low', 'normal'] as const) {
      assert.ok(count(priority) >= 8 && count(priority) <= 13, `${count(priority)} ${priority} of 200`)
    }
  })

  test('a high create is answered before the normal ones that wait for a slot', async (t) => {
    const { parley, models } = await startStage(t, ONE_CALL)
    const key = await parley.key()
    await busy(parley, models, key)
    const waiting = jobs(20).map((body) => parley.post(MESSAGES, body, key))
    await callsWait(t, parley, 20)
    const [high = job()] = jobs(1, 'high')
    const answered = parley.post(MESSAGES, high, key)
    await callsWait(t, parley, 21)
    const order = await untilCalled(t, parley, models, 2)
    assert.equal(order[1]?.split(' ')[0], 'high')
    const batch = await createBatches({ parley }, key, jobs(1, 'high'))
    await callsWait(t, parley, 21)
    // One other job may have got its place before the high job was claimed.
    const next = (await untilCalled(t, parley, models, 4)).slice(2)
    assert.ok(
      next.some((content) => content.startsWith('high')),
      String(next),
    )
    models.script = () => undefined
    models.release()
    granted(await answered, 200)
    for (const one of waiting) granted(await one, 200)
    await parley.ended(batch[0] ?? '', key)
  })

  test('a tier decides which priorities may be used; operators see that of each job', async (t) => {
    const { parley } = await startStage(t, { settings: { tiers: { user_go: { priorities: ['low'] } } } })
    const [go, pro, max] = [
      await parley.key('user_go'),
      await parley.key('user_pro'),
      await parley.key('user_max'),
    ]
    const create = async (key: string, priority?: string) =>
      await parley.post(MESSAGES, job({ priority }), key)
    const { message, details } = refused(await create(pro, 'high'), 403)
    assert.equal(message, 'Priority not allowed: jobs of tier user_pro may not have the priority high.')
    assert.equal(details, 'priority: must be normal or low.')
    assert.equal(refused(await create(go, 'normal'), 403).details, 'priority: must be low.')
    invalid(await create(max, 'urgent'), /^priority: must be one of .*high/)
    invalid(await parley.post(BATCHES, [job({ priority: 1 })], max), /^jobs\[0\]\.priority: /)
    const admin = await adminOf(parley)
    for (const [key, priority] of [
      [max, 'high'],
      [pro, 'low'],
      [pro, 'normal'],
      [go, undefined],
    ] as const) {
      const [id] = enqueued(await parley.post(BATCHES, [job({ priority })], key), 1)
      assert.equal(granted(await admin.get(`/jobs/${id}`), 200).priority, priority ?? 'normal')
    }
    assert.deepEqual(granted(await parley.get('/api/v1/me', go), 200).limits.priorities, ['low'])
  })
})
