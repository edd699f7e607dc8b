/**
 * Tests outages of model servers: accepted jobs wait in the queue for up to `jobs.patience_seconds`, and occupy no slot.
 * Servers that scale to zero are woken at `upstreams.NAME.wake_url` while jobs wait for them.
 */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type Reply, reply, startModelServer } from '../model-server.ts'
import { Slots } from '../model-servers/slots.ts'
import { onAnyStore, onEachStore, storeName } from '../on-each-store.ts'
import type { Parley } from '../parley.ts'
import { LONG } from '../support/long-form.ts'
import { LONG_STEP_MS, metric, numbered, ONE_SLOT, running } from '../support/outage.ts'
import { adminOf } from './admin/admin.ts'
import { callerOf } from './caller.ts'
import { completed, failed, granted, timedOut } from './expect.ts'
import { onCalls, startOutageScene } from './outage-scene.ts'
import { stopAtOnce } from './stage.ts'

const ONE_CALL = { settings: ONE_SLOT, findsConcurrency: true }
const RESUMED_MS = 10_000

async function startOutage(t: TestContext, count: number) {
  const scene = await startOutageScene(t, ONE_CALL)
  const { parley, models } = scene
  let isDead = false
  models.script = onCalls(() => {
    if (isDead || scene.calls() <= 3) return undefined
    isDead = true
    void models.kill()
    return reply.stall()
  })
  const ids = await scene.createJobs(count)
  await scene.until(async () => isDead && (await running(parley)) === 0)
  return { ...scene, ids }
}

async function resumes(t: TestContext, scene: Awaited<ReturnType<typeof startOutageScene>>): Promise<void> {
  const before = scene.calls()
  const ms = await scene.until(() => scene.calls() > before)
  t.diagnostic(`work resumed after ${ms} ms`)
  assert.ok(ms <= RESUMED_MS, `${ms} ms`)
}

function unreachableSeconds(parley: Parley): Promise<number> {
  const labels = 'upstream="openai",model="gpt-5-mini",reason="unreachable"'
  return metric(parley, `parley_upstream_unavailable_seconds{${labels}}`)
}

async function assertShown(parley: Parley, id: string): Promise<void> {
  const admin = await adminOf(parley)
  const { waiting_for_upstream: waiting } = await admin.read(`/jobs/${id}`)
  assert.deepEqual([waiting.targets, waiting.reason], [['openai/gpt-5-mini'], 'unreachable'])
  assert.match(waiting.message, /ECONNREFUSED/)
  const { upstreams } = await admin.read('/overview')
  assert.equal(upstreams[0].unavailable[0].reason, 'unreachable')
  const seconds = await unreachableSeconds(parley)
  assert.ok(seconds > 3000, `${seconds} s`)
  assert.ok(parley.log.some(({ message }) => message === 'a model server is unavailable'))
}

async function startAsleep(t: TestContext, answer: Reply) {
  const waker = await startModelServer({ script: () => answer }, t)
  const wake_url = `${waker.baseUrl}/wake?token=a-secret`
  const settings = { upstreams: { openai: { api_key_env: null, wake_url } } }
  const scene = await startOutageScene(t, { settings })
  await scene.models.kill()
  return { scene, ...scene, waker }
}

onEachStore(() => {
  // The length of an outage matters to the router, not to the store, so one store is enough for most lengths.
  for (const outageMs of storeName() === 'SQLite' || LONG ? [12_000, 60_000, 50 * 60_000] : [60_000]) {
    test(`60 jobs complete although the only slot's server is dead for ${outageMs / 1000} s`, async (t) => {
      const scene = await startOutage(t, 60)
      const { parley, models, ids } = scene
      await scene.pass(outageMs, outageMs > 100_000 ? 20_000 : LONG_STEP_MS)
      assert.equal(await running(parley), 0, 'no slot is held')
      const meanwhile = await scene.statuses(ids)
      assert.deepEqual([meanwhile.completed, meanwhile.failed], [3, undefined])
      await models.start()
      await resumes(t, scene)
      await scene.complete(ids)
    })
  }

  test('jobs fail when their patience ends, and say why', async (t) => {
    const scene = await startOutage(t, 60)
    const { parley, caller, ids } = scene
    const single = caller.create()
    // The last step of 30 s may pass this time by up to 30 s, which is still within the patience.
    await scene.pass(3_560_000, 30_000)
    const id = timedOut(await single)
    assert.equal((await scene.statuses(ids)).failed, undefined)
    // Steps are short from here on, so that Parley's check of the model server is answered between them.
    await scene.until(async () => (await unreachableSeconds(parley)) > 0)
    await assertShown(parley, id)
    await scene.ended([...ids, id], 1000)
    assert.deepEqual(await scene.statuses([...ids, id]), { completed: 3, failed: 58 })
    const { code, message, upstream_message: why } = failed(await caller.read(id))
    assert.equal(code, 'model_error')
    assert.match(message, /within 3600 s/)
    assert.match(why, /ECONNREFUSED/)
  })

  test("an account's job that makes the server reset each time fails, and 50 jobs of another complete", async (t) => {
    const scene = await startOutageScene(t, {
      settings: { upstreams: { openai: { max_concurrency: 4, api_key_env: null } } },
      findsConcurrency: true,
      script: ({ text }) => (text.includes('poison') ? reply.reset() : undefined),
    })
    const bad = await callerOf(scene.parley, 'user_max', 'bad')
    let error: { code: string; upstream_message: string } | null = null
    void bad.ask('poison').then((answer) => {
      error = failed(answer)
    })
    const ids = await scene.createJobs(50)
    let more = 0
    await scene.until(async () => {
      // Other jobs must keep running. Without them, Parley could not tell whether the job or the model server is at fault.
      if (more++ % 4 === 0) ids.push(...(await scene.createJobs(1)))
      return error !== null
    })
    await scene.complete(ids)
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
    const scene = await startOutageScene(t, { settings: { models, upstreams, jobs: { concurrency: 4 } } })
    const { parley, caller, models: dead } = scene
    await dead.kill()
    const ids = await scene.createJobs(300)
    await scene.until(async () => (await running(parley)) === 0)
    assert.equal(completed(await caller.create({ model: 'gpt-5' })), 'echo: Hello')
    const batch = await caller.enqueue(numbered(20).map((one) => ({ ...one, model: 'gpt-5' })))
    for (const id of batch) completed(await caller.ended(id))
    await dead.start()
    await scene.complete(ids)
  })

  test('what was paid for before an outage is kept: the repair continues with the first answer', async (t) => {
    const scene = await startOutageScene(t)
    const { parley, caller, models } = scene
    const properties = { a: { type: 'number' } }
    const schema = { type: 'object', properties, required: ['a'], additionalProperties: false }
    models.script = onCalls(() => (scene.calls() === 1 ? reply.json({ a: 'x' }) : reply.status(503)))
    const id = await caller.enqueueOne({ response_format: { format: 'json', schema } })
    await scene.until(async () => scene.calls() > 1 && (await running(parley)) === 0)
    const tried = scene.calls()
    models.script = onCalls(() => reply.json({ a: 1 }))
    await scene.complete([id])
    assert.deepEqual(completed(await caller.read(id)), { a: 1 })
    const calls = models.completions()
    assert.equal(calls.length, tried + 1)
    for (const { body } of calls.slice(1)) assert.equal(body.messages.at(-2)?.role, 'assistant')
  })

  test('with jobs.patience_seconds 0, many jobs at a server that answers nothing fail soon, and others are answered', async (t) => {
    const JOBS = 200
    const upstreams = { openai: { api_key_env: null, call_timeout_seconds: 2 } }
    const jobs = { patience_seconds: 0, run_timeout_seconds: 4 }
    const scene = await startOutageScene(t, {
      settings: { upstreams, jobs },
      findsConcurrency: true,
      script: onCalls(() => reply.stall()),
    })
    const { parley, models } = scene
    const ids = await scene.createJobs(JOBS)
    const tookMs = await scene.ended(ids)
    t.diagnostic(`${JOBS} jobs failed in ${tookMs / 1000} s after ${scene.calls()} calls`)
    assert.deepEqual(await scene.statuses(ids), { failed: JOBS })
    assert.ok(tookMs <= 15_000, `${tookMs} ms`)
    models.script = () => undefined
    models.release()
    const other = await callerOf(parley, 'user_max', 'other')
    await scene.complete(await scene.createJobs(20, other), other)
  })

  test('20 jobs complete at a one-slot server whose call timeout is three answers long', async (t) => {
    const ANSWER_MS = 2000
    const settings = { upstreams: { openai: { api_key_env: null, call_timeout_seconds: 6.1 } } }
    const scene = await startOutageScene(t, { settings, findsConcurrency: true })
    const slots = new Slots({ answerMs: ANSWER_MS, clock: scene.clock })
    scene.models.script = onCalls(() => slots.hold(reply.echo()))
    const tookMs = await scene.complete(await scene.createJobs(20))
    const answersMs = 20 * ANSWER_MS
    t.diagnostic(`${scene.calls()} calls, ${tookMs / 1000} s for ${answersMs / 1000} s of answers`)
    assert.ok(scene.calls() < 40, `${scene.calls()} calls`)
  })

  test('a server that does not respond is woken once jobs wait, again every 30 s while one waits, and not once it responds', async (t) => {
    const { caller, models, createJobs, until, pass, complete, waker } = await startAsleep(
      t,
      reply.status(202),
    )
    await pass(60_000, 1000)
    assert.equal(waker.requests.length, 0)
    const [id] = await createJobs(1)
    await until(() => waker.requests.length > 0)
    assert.deepEqual(waker.requests[0]?.body, { upstream: 'openai' })
    assert.equal(waker.requests[0]?.path, '/v1/wake?token=a-secret')
    await pass(65_000, 1000)
    assert.equal(waker.requests.length, 3)
    granted(await caller.cancel(id), 200)
    await pass(65_000, 1000)
    assert.equal(waker.requests.length, 3)
    const another = await createJobs(1)
    await until(() => waker.requests.length > 3)
    await models.start()
    await complete(another)
    await pass(60_000, 1000)
    assert.equal(waker.requests.length, 4)
  })

  test('a stop does not wait for a wake_url that never responds', async (t) => {
    const { scene, createJobs, until, waker } = await startAsleep(t, () => {})
    await createJobs(1)
    await until(() => waker.requests.length > 0)
    const startMs = performance.now()
    await stopAtOnce(scene)
    // If Parley did not abort the request, undici would wait ten seconds for the response.
    assert.ok(performance.now() - startMs < 8_000)
  })
})

/** Parley interprets these statuses before it asks a store, so one store is enough. */
onAnyStore(() => {
  for (const status of [500, 503, 429, 401]) {
    test(`jobs complete although the server answers ${status} for a minute`, async (t) => {
      const scene = await startOutageScene(t, { ...ONE_CALL, script: onCalls(() => reply.status(status)) })
      const ids = await scene.createJobs(20)
      await scene.pass(60_000, LONG_STEP_MS)
      scene.models.script = () => undefined
      await resumes(t, scene)
      await scene.complete(ids)
    })
  }
})
