/** Tests outages of model servers: accepted jobs wait in the queue for up to `jobs.patience_seconds`, and occupy no slot. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isModelList, type Received, reply, startModelServer } from '../model-server.ts'
import { Slots } from '../model-servers/slots.ts'
import { onAnyStore, onEachStore, storeName } from '../on-each-store.ts'
import { job, type Parley } from '../parley.ts'
import { LONG } from '../support/long-form.ts'
import {
  allComplete,
  allEnded,
  BATCHES,
  completions,
  createJobs,
  LONG_STEP_MS,
  MESSAGES,
  metric,
  numbered,
  ONE_SLOT,
  running,
  statuses,
  untilTrue,
} from '../support/outage.ts'
import { adminOf } from './admin/admin.ts'
import { completed, enqueued, failed, granted, timedOut } from './expect.ts'
import { startStage } from './stage.ts'

const contentOf = ({ body }: Received) => String(body.messages?.at(-1)?.content)

/** Starts a stage whose model server crashes while it answers the fourth job. */
async function startOutage(t: { after(end: () => unknown): void; signal: AbortSignal }, count: number) {
  const stage = await startStage(t, { settings: ONE_SLOT, findsConcurrency: true })
  const { parley, models } = stage
  const key = await parley.key()
  let isDead = false
  models.script = (request) => {
    if (isDead || isModelList(request) || completions(models) <= 3) return undefined
    isDead = true
    void models.kill()
    return reply.stall()
  }
  const ids = await createJobs(parley, key, count)
  const isSlotFree = async () => isDead && (await running(parley)) === 0
  await untilTrue(t, stage, isSlotFree)
  return { ...stage, key, ids }
}

function unreachableSeconds(parley: Parley): Promise<number> {
  const labels = 'upstream="openai",model="gpt-5-mini",reason="unreachable"'
  return metric(parley, `parley_upstream_unavailable_seconds{${labels}}`)
}

/** Asserts what operators see of a job that waits for a model server. */
async function assertShown(parley: Parley, id: string): Promise<void> {
  const admin = await adminOf(parley)
  const { waiting_for_upstream: waiting } = granted(await admin.get(`/jobs/${id}`), 200)
  assert.deepEqual([waiting.targets, waiting.reason], [['openai/gpt-5-mini'], 'unreachable'])
  assert.match(waiting.message, /ECONNREFUSED/)
  const { upstreams } = granted(await admin.get('/overview'), 200)
  assert.equal(upstreams[0].unavailable[0].reason, 'unreachable')
  const seconds = await unreachableSeconds(parley)
  assert.ok(seconds > 3000, `${seconds} s`)
  assert.ok(parley.log.some(({ message }) => message === 'a model server is unavailable'))
}

onEachStore(() => {
  // How long an outage lasts matters to the router, not to the store.
  for (const outageMs of storeName() === 'SQLite' || LONG ? [12_000, 60_000, 50 * 60_000] : [60_000]) {
    test(`60 jobs complete although the only slot's server is dead for ${outageMs / 1000} s`, async (t) => {
      const stage = await startOutage(t, 60)
      const { parley, models, clock, key, ids } = stage
      const untilMs = clock.nowMs() + outageMs
      await untilTrue(t, stage, () => clock.nowMs() >= untilMs, outageMs > 100_000 ? 20_000 : LONG_STEP_MS)
      assert.equal(await running(parley), 0, 'no slot is held')
      const meanwhile = await statuses(parley, key, ids)
      assert.deepEqual([meanwhile.completed, meanwhile.failed], [3, undefined])
      await models.start()
      const before = completions(models)
      const resumedMs = await untilTrue(t, stage, () => completions(models) > before)
      t.diagnostic(`work resumed after ${resumedMs} ms`)
      assert.ok(resumedMs <= 10_000, `${resumedMs} ms`)
      await allComplete(stage, t, key, ids)
    })
  }

  test('jobs fail when their patience ends, and say why', async (t) => {
    const stage = await startOutage(t, 60)
    const { parley, clock, key, ids } = stage
    const single = parley.post(MESSAGES, job(), key)
    // The last step of 30 s may pass this time by up to 30 s, which is still within the patience.
    const untilMs = clock.nowMs() + 3_560_000
    await untilTrue(t, stage, () => clock.nowMs() >= untilMs, 30_000)
    const id = timedOut(await single)
    assert.equal((await statuses(parley, key, ids)).failed, undefined)
    // Steps are short from here on, so that Parley's check of the model server is answered between them.
    await untilTrue(t, stage, async () => (await unreachableSeconds(parley)) > 0)
    await assertShown(parley, id)
    await untilTrue(t, stage, allEnded(parley, key, [...ids, id]), 1000)
    assert.deepEqual(await statuses(parley, key, [...ids, id]), { completed: 3, failed: 58 })
    const { code, message, upstream_message: why } = failed(await parley.get(`${MESSAGES}/${id}`, key))
    assert.equal(code, 'model_error')
    assert.match(message, /within 3600 s/)
    assert.match(why, /ECONNREFUSED/)
  })

  test("an account's job that makes the server reset each time fails, and 50 jobs of another complete", async (t) => {
    const stage = await startStage(t, {
      settings: { upstreams: { openai: { max_concurrency: 4, api_key_env: null } } },
      findsConcurrency: true,
    })
    const { parley, models } = stage
    const [bad, good] = [await parley.key('user_max', 'bad'), await parley.key('user_max', 'good')]
    models.script = (request) => (contentOf(request) === 'poison' ? reply.reset() : undefined)
    const poison = parley.post(MESSAGES, job({ messages: [{ role: 'user', content: 'poison' }] }), bad)
    const ids = await createJobs(parley, good, 50)
    let error: { code: string; upstream_message: string } | null = null
    void poison.then((answer) => {
      error = failed(answer)
    })
    let more = 0
    await untilTrue(t, stage, async () => {
      // Other jobs must keep running: without them, Parley could not tell whether the job or the model server is at fault.
      if (more++ % 4 === 0) ids.push(...(await createJobs(parley, good, 1)))
      return error !== null
    })
    await allComplete(stage, t, good, ids)
    assert.equal(Object(error).code, 'model_error')
    assert.match(Object(error).upstream_message, /connection/)
  })

  test('jobs of another model run at once while those of a dead one wait', async (t) => {
    const live = await startModelServer({}, t)
    const models = {
      'gpt-5': { targets: [{ upstream: 'live', model: 'm' }] },
      'gpt-5-mini': { targets: [{ upstream: 'openai', model: 'm' }] },
    }
    const upstreams = { openai: { api_key_env: null }, live: { base_url: live.baseUrl, api_key_env: null } }
    const stage = await startStage(t, { settings: { models, upstreams, jobs: { concurrency: 4 } } })
    const { parley, models: dead } = stage
    const key = await parley.key()
    await dead.kill()
    const ids = await createJobs(parley, key, 300)
    await untilTrue(t, stage, async () => (await running(parley)) === 0)
    const answer = await parley.post(MESSAGES, job({ model: 'gpt-5' }), key)
    assert.equal(completed(answer), 'echo: Hello')
    const batch = enqueued(
      await parley.post(
        BATCHES,
        numbered(20).map((one) => ({ ...one, model: 'gpt-5' })),
        key,
      ),
      20,
    )
    for (const id of batch) completed(await parley.ended(id, key))
    await dead.start()
    await allComplete(stage, t, key, ids)
  })

  test('what was paid for before an outage is kept: the repair continues with the first answer', async (t) => {
    const stage = await startStage(t)
    const { parley, models } = stage
    const key = await parley.key()
    const schema = {
      type: 'object',
      properties: { a: { type: 'number' } },
      required: ['a'],
      additionalProperties: false,
    }
    models.script = (request) => {
      if (isModelList(request)) return undefined
      return completions(models) === 1 ? reply.json({ a: 'x' }) : reply.status(503)
    }
    const [id = ''] = enqueued(
      await parley.post(BATCHES, [job({ response_format: { format: 'json', schema } })], key),
      1,
    )
    await untilTrue(t, stage, async () => completions(models) > 1 && (await running(parley)) === 0)
    const tried = completions(models)
    models.script = (request) => (isModelList(request) ? undefined : reply.json({ a: 1 }))
    let end = await parley.get(`${MESSAGES}/${id}`, key)
    await untilTrue(t, stage, async () => {
      end = await parley.get(`${MESSAGES}/${id}`, key)
      return end.body.data.status === 'completed'
    })
    assert.deepEqual(completed(end), { a: 1 })
    const calls = models.completions()
    assert.equal(calls.length, tried + 1)
    for (const { body } of calls.slice(1)) assert.equal(body.messages.at(-2)?.role, 'assistant')
  })

  test('with jobs.patience_seconds 0 a job fails after three tries', async (t) => {
    const stage = await startStage(t, {
      settings: { jobs: { patience_seconds: 0 } },
      script: () => reply.status(503),
    })
    const { parley, models } = stage
    const key = await parley.key()
    let answer: Awaited<ReturnType<Parley['post']>> | null = null
    void parley.post(MESSAGES, job(), key).then((got) => {
      answer = got
    })
    await untilTrue(t, stage, () => answer !== null)
    assert.ok(answer)
    assert.equal(failed(answer).upstream_status, 503)
    assert.equal(completions(models), 3)
  })

  test('with jobs.patience_seconds 0, many jobs at a server that answers nothing fail soon, and others are answered', async (t) => {
    const JOBS = 200
    const upstreams = { openai: { api_key_env: null, call_timeout_seconds: 2 } }
    const jobs = { patience_seconds: 0, run_timeout_seconds: 4 }
    const stage = await startStage(t, { settings: { upstreams, jobs }, findsConcurrency: true })
    const { parley, models } = stage
    const key = await parley.key()
    models.script = (request) => (isModelList(request) ? undefined : reply.stall())
    const ids = await createJobs(parley, key, JOBS)
    const tookMs = await untilTrue(t, stage, allEnded(parley, key, ids))
    t.diagnostic(`${JOBS} jobs failed in ${tookMs / 1000} s after ${completions(models)} calls`)
    assert.deepEqual(await statuses(parley, key, ids), { failed: JOBS })
    assert.ok(tookMs <= 15_000, `${tookMs} ms`)
    models.script = () => undefined
    models.release()
    const other = await parley.key('user_max', 'other')
    await allComplete(stage, t, other, await createJobs(parley, other, 20))
  })

  test('20 jobs complete at a one-slot server whose call timeout is three answers long', async (t) => {
    const ANSWER_MS = 2000
    const settings = { upstreams: { openai: { api_key_env: null, call_timeout_seconds: 6.1 } } }
    const stage = await startStage(t, { settings, findsConcurrency: true })
    const { parley, models, clock } = stage
    const key = await parley.key()
    const slots = new Slots({ answerMs: ANSWER_MS, clock })
    models.script = (request) => (isModelList(request) ? undefined : slots.hold(reply.echo()))
    const ids = await createJobs(parley, key, 20)
    const tookMs = await allComplete(stage, t, key, ids)
    t.diagnostic(
      `${completions(models)} calls, ${tookMs / 1000} s for ${(20 * ANSWER_MS) / 1000} s of answers`,
    )
    assert.ok(completions(models) < 40, `${completions(models)} calls`)
  })
})

/** What the statuses mean is decided before a store is asked. */
onAnyStore(() => {
  for (const status of [500, 503, 429, 401]) {
    test(`jobs complete although the server answers ${status} for a minute`, async (t) => {
      const stage = await startStage(t, { settings: ONE_SLOT, findsConcurrency: true })
      const { parley, models, clock } = stage
      const key = await parley.key()
      models.script = (request) => (isModelList(request) ? undefined : reply.status(status))
      const ids = await createJobs(parley, key, 20)
      const untilMs = clock.nowMs() + 60_000
      await untilTrue(t, stage, () => clock.nowMs() >= untilMs, LONG_STEP_MS)
      models.script = () => undefined
      const before = completions(models)
      const resumedMs = await untilTrue(t, stage, () => completions(models) > before)
      assert.ok(resumedMs <= 10_000, `${resumedMs} ms`)
      await allComplete(stage, t, key, ids)
    })
  }
})
