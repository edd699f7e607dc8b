/**
 * Tests schemas that crash model servers, and connections that break for other reasons: no other job fails or waits for long.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isModelList, reply, startModelServer } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import {
  allEnded,
  arrived,
  completions,
  createAndWait,
  createBatches,
  statuses,
  untilTrue,
  withContent,
} from '../support/outage.ts'
import { completed } from './expect.ts'
import { startStage } from './stage.ts'

onEachStore(() => {
  test('a schema that crashes model servers crashes two of them at most six times, and others wait ten seconds at most', async (t) => {
    const RESTART_MS = 1000
    const fallback = await startModelServer({}, t)
    const targets = ['openai', 'fallback'].map((upstream) => ({ upstream, model: 'm' }))
    const upstream = { api_key_env: null, call_timeout_seconds: 2 }
    const upstreams = { openai: upstream, fallback: { ...upstream, base_url: fallback.baseUrl } }
    const stage = await startStage(t, { settings: { upstreams, models: { 'gpt-5-mini': { targets } } } })
    const { parley, models, clock } = stage
    /** The contents of the jobs whose calls crashed a model server. */
    const crashed: string[] = []
    for (const server of [models, fallback]) {
      server.script = ({ body }) => {
        if (body.response_format?.type !== 'json_schema') return undefined
        crashed.push(String(body.messages.find(({ role }) => role === 'user')?.content))
        void server.kill().then(() => clock.after(RESTART_MS, () => void server.start()))
        return reply.stall()
      }
    }
    const [bad, good] = [await parley.key('user_max', 'bad'), await parley.key('user_max', 'good')]
    completed((await createAndWait(t, stage, good, withContent('the first'))).answer)
    const response_format = {
      format: 'json',
      schema: { type: 'object', properties: { a: { type: 'string' } } },
    }
    const ids = await createBatches(
      stage,
      bad,
      [1, 2, 3].map((n) => withContent(`bad ${n}`, { response_format })),
    )
    let slowestMs = 0
    const haveEnded = allEnded(parley, bad, ids)
    for (let n = 0; n < 12 || !(await haveEnded()); n++) {
      const { answer, ms } = await createAndWait(t, stage, good, withContent(`good ${n}`))
      completed(answer)
      slowestMs = Math.max(slowestMs, ms)
      clock.advance(500)
    }
    t.diagnostic(`${crashed.length} crashes, the slowest answer came after ${slowestMs} ms`)
    assert.ok(slowestMs <= 10_000, `${slowestMs} ms`)
    const before = crashed.length
    for (let n = 0; n < 5; n++) {
      await createAndWait(t, stage, bad, withContent(`bad again ${n}`, { response_format }))
    }
    assert.ok(crashed.length <= 6, `${crashed.length} crashes, ${crashed.length - before} of them later`)
    for (const [content, own] of Map.groupBy(crashed, (one) => one)) {
      assert.ok(own.length <= 3, `${content}: ${own.length} crashes`)
    }
    const lines = parley.log.filter(
      ({ message, schema }) => message === 'call failed' && schema !== undefined,
    )
    assert.ok(
      lines.length > 0 &&
        lines.every(({ job_id, schema }) => job_id && /^[0-9a-f]{16}$/.test(String(schema))),
    )
    assert.ok(ids.some((id) => lines.some(({ job_id }) => job_id === id)))
  })

  test('while a server resets every call, no job fails, and all are answered soon after', async (t) => {
    const stage = await startStage(t, {
      settings: { upstreams: { openai: { max_concurrency: 4, api_key_env: null } } },
    })
    const { parley, models, clock } = stage
    const keys = [await parley.key('user_max', 'one'), await parley.key('user_max', 'two')]
    const schema = { type: 'object', properties: { a: { type: 'string' } } }
    for (const [index, key] of keys.entries()) {
      completed((await createAndWait(t, stage, key, withContent(`before ${index}`))).answer)
    }
    models.script = (request) => (isModelList(request) ? undefined : reply.reset())
    const formats = [{ format: 'text' }, { format: 'json', schema }]
    const bodies = Array.from({ length: 20 }, (_, n) =>
      withContent(`job ${n}`, { response_format: formats[n % 2] }),
    )
    const ids = [
      await createBatches(stage, keys[0] ?? '', bodies),
      await createBatches(stage, keys[1] ?? '', bodies),
    ]
    const untilMs = clock.nowMs() + 60_000
    await untilTrue(t, stage, () => clock.nowMs() >= untilMs)
    models.script = (request) => {
      const wantsJson = request.text.includes('JSON') || request.body.response_format !== undefined
      return wantsJson && !isModelList(request) ? reply.json({ a: 'x' }) : undefined
    }
    const before = completions(models)
    const resumedMs = await untilTrue(
      t,
      stage,
      arrived(stage, () => completions(models) > before),
    )
    assert.ok(resumedMs <= 10_000, `${resumedMs} ms`)
    for (const [index, key] of keys.entries()) {
      const own = ids[index] ?? []
      await untilTrue(t, stage, allEnded(parley, key, own))
      assert.deepEqual(await statuses(parley, key, own), { completed: own.length })
    }
  })
})
