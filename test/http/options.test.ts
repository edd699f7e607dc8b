/** Tests `options` of a job: how they reach the model server, how they affect the cache, and which values are rejected. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { isPostgres } from '../../src/store/open.ts'
import { type Received, reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { connectPostgres } from '../postgres/connection.ts'
import { eventually } from '../support/eventually.ts'
import { adminOf } from './admin/admin.ts'
import { completed, enqueued, failed, granted, invalid, refused } from './expect.ts'
import { startStage } from './stage.ts'

const MESSAGES = '/api/v1/messages'
const ALL = {
  temperature: 0.2,
  top_p: 0.9,
  max_tokens: 50,
  stop: ['END', 'a "}" b'],
  seed: 7,
  presence_penalty: -0.5,
  frequency_penalty: 2,
  reasoning_effort: 'low',
  verbosity: 'high',
}
const sentFields = ({ body }: Received) => {
  const { model: _, messages: __, response_format: ___, ...fields } = body
  return fields
}

onEachStore(() => {
  test('all options are sent, also with a repair and for queued jobs, and without options nothing is', async (t) => {
    const { parley, models } = await startStage(t)
    const key = await parley.key()
    const format = { format: 'json', schema: { type: 'object', required: ['a'] } }
    models.script = (_request, index) => reply.text(index === 0 ? '{}' : '{"a":1}')
    completed(await parley.post(MESSAGES, job({ response_format: format, options: ALL }), key))
    assert.deepEqual(models.requests.map(sentFields), [ALL, ALL])
    models.script = () => undefined
    const [id] = enqueued(await parley.post(`${MESSAGES}/batches`, [job({ options: { seed: 1 } })], key), 1)
    completed(await parley.get(`${MESSAGES}/${id}?wait=30`, key))
    completed(await parley.post(MESSAGES, job({ options: {} }), key))
    assert.deepEqual(models.requests.slice(2).map(sentFields), [{ seed: 1 }, {}])
  })

  test('jobs with different options are not identical; the order of options does not matter', async (t) => {
    const { parley, models } = await startStage(t)
    const key = await parley.key()
    const ask = async (options?: object) => completed(await parley.post(MESSAGES, job({ options }), key))
    await ask()
    await ask({ temperature: 0.2, seed: 1 })
    await ask({ temperature: 0.3, seed: 1 })
    assert.equal(models.completions().length, 3)
    await ask()
    await ask({})
    await ask({ seed: 1, temperature: 0.2 })
    assert.equal(models.completions().length, 3)
  })

  test("a caller's option replaces the same field of the upstream's body", async (t) => {
    const body = {
      temperature: 1,
      max_completion_tokens: 9,
      chat_template_kwargs: { enable_thinking: false },
    }
    const { parley, models } = await startStage(t, { settings: { upstreams: { openai: { body } } } })
    const key = await parley.key()
    completed(await parley.post(MESSAGES, job({ options: { temperature: 0, max_tokens: 3 } }), key))
    completed(await parley.post(MESSAGES, job(), key))
    const { chat_template_kwargs } = body
    assert.deepEqual(models.requests.map(sentFields), [
      { temperature: 0, max_tokens: 3, chat_template_kwargs },
      body,
    ])
  })

  test('a server that wants max_completion_tokens gets it, at once from the second job on', async (t) => {
    const message =
      "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    const { parley, models } = await startStage(t, {
      script: ({ body }) =>
        'max_tokens' in body ? reply.status(400, { body: { error: { message } } }) : undefined,
    })
    const key = await parley.key()
    for (const content of ['a', 'b']) {
      const messages = [{ role: 'user', content }]
      completed(await parley.post(MESSAGES, job({ messages, options: { max_tokens: 5 } }), key))
    }
    const renamed = { max_completion_tokens: 5 }
    assert.deepEqual(models.requests.map(sentFields), [{ max_tokens: 5 }, renamed, renamed])
  })

  test('a job whose option the server rejects fails with its name', async (t) => {
    const message = "'temperature' does not support 0.2 with this model."
    const { parley, models } = await startStage(t, {
      script: () => reply.status(400, { body: { error: { message } } }),
    })
    const answer = await parley.post(MESSAGES, job({ options: ALL }), await parley.key())
    const error = failed(answer)
    assert.equal(error.code, 'model_error')
    assert.equal(error.message, 'The model server rejected options.temperature of the job.')
    assert.equal(error.upstream_message, message)
    assert.equal(models.completions().length, 1)
  })

  test('wrong options are a 400 that names the field and the rule', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    const cases: readonly (readonly [object, RegExp])[] = [
      [{ temperature: 2.1 }, /^options\.temperature: .*2/],
      [{ top_p: 0 }, /^options\.top_p: /],
      [{ max_tokens: 0 }, /^options\.max_tokens: /],
      [{ max_tokens: 1.5 }, /^options\.max_tokens: .*integer/],
      [{ stop: ['a', 'b', 'c', 'd', 'e'] }, /^options\.stop: /],
      [{ seed: 2 ** 53 }, /^options\.seed: /],
      [{ reasoning_effort: 'hard' }, /^options\.reasoning_effort: must be one of .*minimal/],
      [{ top_k: 5 }, /^options\.top_k: /],
    ]
    for (const [options, details] of cases)
      invalid(await parley.post(MESSAGES, job({ options }), key), details)
    const batch = await parley.post(`${MESSAGES}/batches`, [job({ options: { temperature: 3 } })], key)
    invalid(batch, /^jobs\[0\]\.options\.temperature: /)
  })

  test('max_output_tokens of a tier limits every job, and is used where a job does not say', async (t) => {
    const settings = { tiers: { user_free: { max_output_tokens: 100, reads_per_minute: 1000 } } }
    const { parley, models } = await startStage(t, { settings })
    const [free, max] = [await parley.key('user_free'), await parley.key('user_max')]
    const ask = (key: string, options?: object) =>
      parley.post(MESSAGES, job({ model: 'gpt-auto', options }), key)
    const tooMany = refused(await ask(free, { max_tokens: 101 }), 403)
    assert.match(tooMany.message, /tier user_free allows 100 tokens/)
    assert.match(tooMany.details ?? '', /^options\.max_tokens: must be at most 100/)
    completed(await ask(free))
    completed(await ask(free, { max_tokens: 7, seed: 3 }))
    completed(await ask(max))
    assert.deepEqual(models.requests.map(sentFields), [{ max_tokens: 100 }, { max_tokens: 7, seed: 3 }, {}])
    const me = granted(await parley.get('/api/v1/me', free), 200)
    assert.equal(me.limits.max_output_tokens, 100)
  })

  test('operators see the options of a job beside its response_format', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    const { job_id } = granted(await parley.post(MESSAGES, job({ options: ALL }), key), 200)
    const data = granted(await (await adminOf(parley)).get(`/jobs/${job_id}/content`), 200)
    assert.deepEqual(data.response_format, { format: 'text' })
    assert.deepEqual(data.options, ALL)
  })

  for (const [field, value] of Object.entries({ options: { seed: 1 }, complete_within: 60, priority: 'low' }))
    test(`while a node of an earlier version is alive, ${field} is refused, and other jobs are accepted`, async (t) => {
      const { parley } = await startStage(t)
      if (!isPostgres(parley.database)) return
      const key = await parley.key()
      const database = await connectPostgres(t, parley.database)
      const lease = (seconds: number) =>
        database.query(
          `insert into nodes (node, lease_until) values ('earlier', clock_timestamp() + $1 * interval '1 s')
         on conflict (node) do update set lease_until = excluded.lease_until`,
          [seconds],
        )
      const untilStatus = (status: number) =>
        eventually(
          () => parley.post(MESSAGES, job({ [field]: value }), key),
          (answer) => answer.status === status,
          { signal: t.signal },
        )
      await lease(60)
      const mixed = await untilStatus(503)
      assert.equal(mixed.headers.get('retry-after'), '5')
      const { message, details } = refused(mixed, 503)
      assert.equal(message, 'A node of an earlier version is still running.')
      assert.ok(details?.startsWith(`${field}: that node would ignore it`))
      completed(await parley.post(MESSAGES, job(), key))
      await lease(-1)
      completed(await untilStatus(200))
    })
})
