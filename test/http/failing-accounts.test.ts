/**
 * Tests jobs of one account that fail although the model server works, or that crash it. Other accounts must be answered as
 * usual, and each job must end with its own cause.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isModelList, type Reply, reply, startModelServer } from '../model-server.ts'
import { onEachStore, storeName } from '../on-each-store.ts'
import { LONG } from '../support/long-form.ts'
import { allEnded, arrived, metric, readJobs, STEP_MS } from '../support/outage.ts'
import { callerOf, says } from './caller.ts'
import { completed, failed } from './expect.ts'
import { onCalls, startOutageScene } from './outage-scene.ts'

const CALL_TIMEOUT_MS = 2000
const PATIENCE_MS = 60_000
const ATTACKS = 300
/** A job fails within five seconds after its patience has ended, but a last call may still run. */
const SWEEP_MS = 10_000
const CONCURRENCY = 256

const schema = { type: 'object', properties: { a: { type: 'string' } } }
const asJson = { response_format: { format: 'json', schema } }

onEachStore(() => {
  const attacks: readonly (readonly [name: string, answer: Reply, cause: RegExp])[] = [
    ['403', reply.status(403), /403/],
    ['500', reply.status(500), /500/],
    ['a timeout', reply.stall(), /within 2 s/],
    ['a reset', reply.reset(), /connection/],
    ['503 with Retry-After', reply.status(503, { headers: { 'retry-after': '3600' } }), /503/],
  ]
  // The causes differ in the router, so one store is enough for most. The last cause also keeps jobs in the store until their
  // patience ends.
  for (const [name, answer, cause] of storeName() === 'SQLite' || LONG ? attacks : attacks.slice(-1)) {
    test(`${ATTACKS} jobs of one account get ${name}, and another account is answered as usual`, async (t) => {
      const upstreams = { openai: { api_key_env: null, call_timeout_seconds: CALL_TIMEOUT_MS / 1000 } }
      const jobs = { patience_seconds: PATIENCE_MS / 1000 }
      const scene = await startOutageScene(t, { settings: { upstreams, jobs } })
      const { parley, models, clock } = scene
      const bad = await callerOf(parley, 'user_max', 'bad')
      const slowest = async (content: string, count: number) => {
        let slowestMs = 0
        for (let n = 0; n < count; n++) {
          const { answer: got, ms } = await scene.createAndWait(says(`${content} ${n}`))
          completed(got)
          slowestMs = Math.max(slowestMs, ms)
          clock.advance(2 * STEP_MS)
        }
        return slowestMs
      }
      const quietMs = await slowest('quiet', 5)
      models.script = ({ text }) => (text.includes('"bad ') ? answer : undefined)
      const ids = await scene.createJobs(
        Array.from({ length: ATTACKS }, (_, n) => says(`bad ${n}`)),
        bad,
      )
      const startMs = clock.nowMs()
      const slowestMs = await slowest('good', 30)
      // Time passes in steps, so a measured time is a multiple of the step.
      const mostMs = 1.5 * Math.max(quietMs, STEP_MS) + CALL_TIMEOUT_MS
      t.diagnostic(`the slowest answer came after ${slowestMs} ms, without these jobs after ${quietMs} ms`)
      assert.ok(slowestMs <= mostMs, `${slowestMs} ms instead of ${mostMs}`)
      const limit = await metric(parley, 'parley_upstream_calls{upstream="openai",state="places"}')
      assert.ok(limit >= 0.8 * CONCURRENCY, `the limit fell to ${limit}`)
      await scene.ended(ids, 1000, bad)
      const endedMs = clock.nowMs() - startMs
      assert.ok(endedMs <= PATIENCE_MS + SWEEP_MS, `the last job ended after ${endedMs} ms`)
      failed(await bad.read(ids[0]))
      for (const { status, error } of await readJobs(parley, bad.key, ids)) {
        assert.equal(status, 'failed')
        assert.match(`${error.message} ${error.upstream_status} ${error.upstream_message}`, cause)
      }
    })
  }

  test('a schema that crashes model servers crashes two of them at most six times, and others wait ten seconds at most', async (t) => {
    const RESTART_MS = 1000
    const fallback = await startModelServer({}, t)
    const targets = ['openai', 'fallback'].map((upstream) => ({ upstream, model: 'm' }))
    const upstream = { api_key_env: null, call_timeout_seconds: 2 }
    const upstreams = { openai: upstream, fallback: { ...upstream, base_url: fallback.baseUrl } }
    const settings = { upstreams, models: { 'gpt-5-mini': { targets } } }
    const scene = await startOutageScene(t, { settings, account: 'good' })
    const { parley, models, clock } = scene
    const bad = await callerOf(parley, 'user_max', 'bad')
    const crashed: string[] = []
    for (const server of [models, fallback]) {
      server.script = ({ body }) => {
        if (body.response_format?.type !== 'json_schema') return undefined
        crashed.push(String(body.messages.find(({ role }) => role === 'user')?.content))
        void server.kill().then(() => clock.after(RESTART_MS, () => void server.start()))
        return reply.stall()
      }
    }
    completed((await scene.createAndWait(says('the first'))).answer)
    const ids = await scene.createJobs(
      [1, 2, 3].map((n) => says(`bad ${n}`, asJson)),
      bad,
    )
    let slowestMs = 0
    const haveEnded = allEnded(parley, bad.key, ids)
    for (let n = 0; n < 12 || !(await haveEnded()); n++) {
      const { answer, ms } = await scene.createAndWait(says(`good ${n}`))
      completed(answer)
      slowestMs = Math.max(slowestMs, ms)
      clock.advance(500)
    }
    t.diagnostic(`${crashed.length} crashes, the slowest answer came after ${slowestMs} ms`)
    assert.ok(slowestMs <= 10_000, `${slowestMs} ms`)
    const before = crashed.length
    for (let n = 0; n < 5; n++) await scene.createAndWait(says(`bad again ${n}`, asJson), bad)
    assert.ok(crashed.length <= 6, `${crashed.length} crashes, ${crashed.length - before} of them later`)
    for (const [content, own] of Map.groupBy(crashed, (one) => one)) {
      assert.ok(own.length <= 3, `${content}: ${own.length} crashes`)
    }
    const isOfSchema = ({ message, schema }: (typeof parley.log)[number]) =>
      message === 'call failed' && schema !== undefined
    const lines = parley.log.filter(isOfSchema)
    assert.ok(lines.length > 0)
    for (const { job_id, schema } of lines) assert.ok(job_id && /^[0-9a-f]{16}$/.test(String(schema)))
    assert.ok(ids.some((id) => lines.some(({ job_id }) => job_id === id)))
  })

  test('while a server resets every call, no job fails, and all are answered soon after', async (t) => {
    const scene = await startOutageScene(t, {
      settings: { upstreams: { openai: { max_concurrency: 4, api_key_env: null } } },
    })
    const { parley, models, caller, calls } = scene
    const callers = [caller, await callerOf(parley, 'user_max', 'two')]
    for (const [index, one] of callers.entries()) {
      completed((await scene.createAndWait(says(`before ${index}`), one)).answer)
    }
    models.script = onCalls(() => reply.reset())
    const bodies = Array.from({ length: 20 }, (_, n) => says(`job ${n}`, n % 2 === 0 ? {} : asJson))
    const batches: [ids: string[], by: typeof caller][] = []
    for (const one of callers) batches.push([await scene.createJobs(bodies, one), one])
    await scene.pass(60_000)
    models.script = (request) => {
      const wantsJson = request.text.includes('JSON') || request.body.response_format !== undefined
      return wantsJson && !isModelList(request) ? reply.json({ a: 'x' }) : undefined
    }
    const before = calls()
    const resumedMs = await scene.until(arrived(scene, () => calls() > before))
    assert.ok(resumedMs <= 10_000, `${resumedMs} ms`)
    for (const [ids, by] of batches) await scene.complete(ids, by)
  })
})
