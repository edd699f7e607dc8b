/** Tests `complete_within`: a job fails at its deadline, whatever state it is in, and never starts later. */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { isModelList, reply, type Script } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import type { Answer } from '../parley.ts'
import { completions, metric, ONE_SLOT } from '../support/outage.ts'
import { adminOf } from './admin/admin.ts'
import { idOf, type Scene, says, shareStage, startScene } from './caller.ts'
import { completed, failed, granted } from './expect.ts'
import { type Stage, startStage, stopAtOnce } from './stage.ts'

const ONE_CALL = { settings: ONE_SLOT, findsConcurrency: true }
const STALL = () => reply.stall()

const start = (t: TestContext, script: Script = STALL) => startScene(t, { ...ONE_CALL, script })

async function restart(t: TestContext, before: Stage & Scene, pauseMs: number): Promise<Stage & Scene> {
  await stopAtOnce(before)
  before.clock.skip(pauseMs)
  const stage = await startStage(t, { ...ONE_CALL, after: before })
  return { ...stage, caller: before.caller.at(stage.parley) }
}

async function callsAre({ parley, models }: Stage, count: number): Promise<void> {
  while (completions(models) < count) await parley.get('/readyz')
}

function tooLate(answer: Answer): void {
  const message = 'The job did not finish before its deadline (complete_within).'
  assert.deepEqual(failed(answer), { code: 'deadline_exceeded', message })
}

const isOpen = (answer: Answer) => ['pending', 'assigned'].includes(granted(answer, 200).status)

async function endsAtDeadline({ parley, clock, caller }: Scene, id: string): Promise<void> {
  const admin = await adminOf(parley)
  const { deadline } = granted(await admin.get(`/jobs/${id}`), 200)
  clock.advance(deadline * 1000 - clock.nowMs() - 1000)
  for (let reads = 0; reads < 20; reads++) assert.ok(isOpen(await caller.read(id)))
  clock.advance(1000)
  tooLate(await caller.ended(id))
  assert.equal(granted(await admin.get(`/jobs/${id}`), 200).settled_at, deadline)
}

onEachStore(() => {
  const begin = shareStage()

  test('a running call is aborted at the deadline, also that of a repair, and the caller gets the error', async (t) => {
    const schema = { type: 'object', required: ['a'] }
    for (const calls of [1, 2]) {
      const scene = await startScene(t, {
        script: (_request, index) => (index === calls - 1 ? reply.stall() : reply.text('{}')),
      })
      const { parley, caller, models, clock } = scene
      const waiting = caller.create({ response_format: { format: 'json', schema }, complete_within: 10 })
      await callsAre(scene, calls)
      clock.advance(9999)
      assert.equal(await Promise.race([waiting, parley.get('/readyz').then(() => 'open')]), 'open')
      clock.advance(1)
      tooLate(await waiting)
      assert.equal(await models.requests.at(-1)?.ended, 'cut')
    }
  })

  test('a job that is queued at its deadline fails without a call', async (t) => {
    const scene = await start(t)
    const { parley, caller, models } = scene
    await caller.enqueueOne()
    await callsAre(scene, 1)
    const ids = await caller.enqueue(['a', 'b', 'c'].map((one) => says(one, { complete_within: 30 })))
    const [other] = await caller.enqueue([says('no deadline')])
    await endsAtDeadline(scene, ids[1] ?? '')
    for (const id of ids) tooLate(await caller.ended(id))
    assert.ok(isOpen(await caller.read(other)))
    assert.equal(completions(models), 1)
    assert.equal(await metric(parley, 'parley_jobs_total{model="gpt-5-mini",outcome="deadline_exceeded"}'), 3)
    // Only one of the three jobs had been claimed. The others must not count as runs of 0 s.
    assert.equal(await metric(parley, 'parley_job_run_seconds_count{model="gpt-5-mini"}'), 1)
  })

  for (const [what, answer] of [
    ['an unavailable model server', reply.status(503)],
    ['a Retry-After', reply.status(429, { headers: { 'retry-after': '600' } })],
  ] as const) {
    test(`a job that waits for ${what} fails at its deadline`, async (t) => {
      const scene = await start(t, (request) => (isModelList(request) ? undefined : answer))
      const { parley, caller, models, clock } = scene
      const id = await caller.enqueueOne({ complete_within: 60 })
      while (completions(models) === 0) {
        clock.advance(1)
        await parley.get('/readyz')
      }
      clock.advance(5000)
      await parley.get('/readyz')
      await endsAtDeadline(scene, id)
    })
  }

  test('the deadline holds after a restart: for a job that was queued, and for one that ran', async (t) => {
    const before = await start(t)
    const [ran = ''] = await before.caller.enqueue([says('ran', { complete_within: 600 })])
    await callsAre(before, 1)
    const [queued = ''] = await before.caller.enqueue([says('queued', { complete_within: 60 })])
    const scene = await restart(t, before, 5000)
    await callsAre(scene, 2)
    await endsAtDeadline(scene, queued)
    await endsAtDeadline(scene, ran)
    assert.equal(completions(scene.models), 2)
  })

  test('jobs whose deadline passed while no server ran are failed, and not started', async (t) => {
    const before = await start(t)
    const ids = await before.caller.enqueue(['a', 'b'].map((one) => says(one, { complete_within: 60 })))
    await callsAre(before, 1)
    const { caller, clock, models } = await restart(t, before, 60_000)
    for (const id of ids) {
      let answer = await caller.read(id)
      for (; isOpen(answer); answer = await caller.read(id)) clock.advance(20)
      tooLate(answer)
    }
    assert.equal(completions(models), 1)
  })

  test('a job that ends in time is as any other', async (t) => {
    const { caller, clock } = await begin(t)
    const first = await caller.create({ complete_within: 5 })
    completed(first)
    clock.advance(60_000)
    assert.equal((await caller.read(idOf(first))).text, first.text)
  })
})
