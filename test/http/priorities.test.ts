/**
 * Tests `priority` of a job. Higher priorities start first, within an account and between accounts, and low ones still get a
 * twentieth of the starts.
 */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { PRIORITIES, type Priority } from '../../src/job/priority.ts'
import { type ModelServerForTests, reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job, type Parley } from '../parley.ts'
import { LONG } from '../support/long-form.ts'
import { completions, createBatches, ONE_SLOT } from '../support/outage.ts'
import { adminOf } from './admin/admin.ts'
import { type Caller, callerOf, says, startScene } from './caller.ts'
import { granted, invalid, refused } from './expect.ts'
import { onCalls } from './outage-scene.ts'
import { startStage, stopAtOnce } from './stage.ts'

/** The model server holds each call, so that jobs created in the meantime are queued. */
const ONE_CALL = { settings: ONE_SLOT, findsConcurrency: true, script: onCalls(() => reply.stall()) }
/** When another job is created, this many low jobs already wait at the model server. */
const ON_THEIR_WAY = 2
const MANY = LONG ? 10_000 : 1_000

const called = (models: ModelServerForTests) =>
  models.completions().map(({ body }) => String(body.messages?.at(-1)?.content).split(' ')[0])

let made = 0
const jobs = (count: number, priority?: Priority) =>
  Array.from({ length: count }, () =>
    says(`${priority ?? 'normal'} ${made++}`, priority === undefined ? {} : { priority }),
  )

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

async function startBusy(t: TestContext) {
  const scene = await startScene(t, ONE_CALL)
  const { parley, caller, models } = scene
  const create = (all: ReturnType<typeof jobs>, by: Caller = caller) => createBatches(scene, by.key, all)
  await create(jobs(1, 'low'))
  while (completions(models) === 0) await parley.get('/readyz')
  return {
    ...scene,
    create,
    untilCalled: (count: number) => untilCalled(t, parley, models, count),
    callsWait: async (count: number): Promise<void> => {
      const line = new RegExp(`^parley_upstream_calls\\{[^}]*state="waiting"\\} ${count}$`, 'm')
      while (!line.test((await parley.get('/metrics')).text)) t.signal.throwIfAborted()
    },
  }
}

onEachStore(() => {
  test(`a high job is the next of ${MANY} low ones to start, also after a restart`, async (t) => {
    const first = await startBusy(t)
    await first.create(jobs(MANY, 'low'))
    await first.create(jobs(1, 'high'))
    // The two waiting jobs are a low one and the high one. Before the high one waits here, a second low one could still
    // overtake it.
    await first.callsWait(2)
    assert.equal((await first.untilCalled(2))[1], 'high')
    await first.create(jobs(1, 'normal'))
    await stopAtOnce(first)
    const before = completions(first.models)
    const { parley, models } = await startStage(t, { ...ONE_CALL, after: first })
    const next = (await untilCalled(t, parley, models, before + 1 + ON_THEIR_WAY)).slice(before)
    assert.ok(next.includes('normal'), String(next))
  })

  test('higher jobs start first, within an account and between accounts of the same tier', async (t) => {
    const scene = await startBusy(t)
    const other = await callerOf(scene.parley, 'user_max', 'other')
    for (const priority of PRIORITIES.toReversed()) {
      for (const by of [scene.caller, other]) await scene.create(jobs(5, priority), by)
    }
    const order = await scene.untilCalled(31)
    // One job of each lower priority was already on its way, or had its turn because nineteen others had started before it.
    const wrong = order.slice(1, 11).filter((priority) => priority !== 'high').length
    assert.ok(wrong <= ON_THEIR_WAY, String(order))
    assert.deepEqual(order.slice(-7), Array(7).fill('low'), String(order))
  })

  test('while high jobs never end, low and normal ones get a twentieth each', async (t) => {
    const scene = await startBusy(t)
    for (const priority of ['low', 'normal', 'high'] as const) {
      await scene.create(jobs(priority === 'high' ? 250 : 30, priority))
    }
    const order = (await scene.untilCalled(204)).slice(4)
    for (const priority of ['low', 'normal']) {
      const count = order.filter((one) => one === priority).length
      assert.ok(count >= 8 && count <= 13, `${count} ${priority} of 200`)
    }
  })

  test('a high create is answered before the normal ones that wait for a slot', async (t) => {
    const { caller, models, create, callsWait, ...scene } = await startBusy(t)
    const waiting = jobs(20).map((body) => caller.create({ ...body }))
    await callsWait(20)
    const [high] = jobs(1, 'high')
    const answered = caller.create({ ...high })
    await callsWait(21)
    assert.equal((await scene.untilCalled(2))[1], 'high')
    const batch = await create(jobs(1, 'high'))
    await callsWait(21)
    // One other job may have got its place before the high job was claimed.
    const next = (await scene.untilCalled(4)).slice(2)
    assert.ok(next.includes('high'), String(next))
    models.script = () => undefined
    models.release()
    for (const one of [answered, ...waiting]) granted(await one, 200)
    await caller.ended(batch[0])
  })

  test('a tier decides which priorities may be used; operators see that of each job', async (t) => {
    const settings = { tiers: { user_go: { priorities: ['low'] } } }
    const { parley, caller: max } = await startScene(t, { settings })
    const [go, pro] = [await callerOf(parley, 'user_go'), await callerOf(parley, 'user_pro')]
    refused(await pro.create({ priority: 'high' }), 403, {
      message: 'Priority not allowed: jobs of tier user_pro may not have the priority high.',
      details: 'priority: must be normal or low.',
    })
    refused(await go.create({ priority: 'normal' }), 403, { details: 'priority: must be low.' })
    invalid(await max.create({ priority: 'urgent' }), /^priority: must be one of .*high/)
    invalid(await max.batch([job({ priority: 1 })]), /^jobs\[0\]\.priority: /)
    const admin = await adminOf(parley)
    for (const [caller, priority] of [
      [max, 'high'],
      [pro, 'low'],
      [pro, 'normal'],
      [go, undefined],
    ] as const) {
      const id = await caller.enqueueOne({ priority })
      assert.equal((await admin.read(`/jobs/${id}`)).priority, priority ?? 'normal')
    }
    assert.deepEqual((await go.me()).limits.priorities, ['low'])
  })
})
