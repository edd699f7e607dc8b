/** Tests `options` of a job: how they reach the model server, how they affect the cache, and which values are rejected. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { type Received, reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { adminOf } from './admin/admin.ts'
import { callerOf, idOf, shareStage, startScene } from './caller.ts'
import { completed, failed, granted, invalid, refused } from './expect.ts'

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

onEachStore(async () => {
  const begin = await shareStage()

  test('all options are sent, also with a repair and for queued jobs, and without options nothing is', async (t) => {
    const { caller, models } = await begin(t, (_request, index) => reply.text(index === 0 ? '{}' : '{"a":1}'))
    const format = { format: 'json', schema: { type: 'object', required: ['a'] } }
    completed(await caller.create({ response_format: format, options: ALL }))
    assert.deepEqual(models.requests.map(sentFields), [ALL, ALL])
    models.script = () => undefined
    completed(await caller.ended(await caller.enqueueOne({ options: { seed: 1 } })))
    completed(await caller.create({ options: {} }))
    assert.deepEqual(models.requests.slice(2).map(sentFields), [{ seed: 1 }, {}])
  })

  test('jobs with different options are not identical; the order of options does not matter', async (t) => {
    const { caller, models } = await begin(t)
    const ask = async (options?: object) => completed(await caller.create({ options }))
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
    const chat_template_kwargs = { enable_thinking: false }
    const body = { temperature: 1, max_completion_tokens: 9, chat_template_kwargs }
    const { caller, models } = await startScene(t, { settings: { upstreams: { openai: { body } } } })
    completed(await caller.create({ options: { temperature: 0, max_tokens: 3 } }))
    completed(await caller.create())
    assert.deepEqual(models.requests.map(sentFields), [
      { temperature: 0, max_tokens: 3, chat_template_kwargs },
      body,
    ])
  })

  test('a server that wants max_completion_tokens gets it, at once from the second job on', async (t) => {
    const message =
      "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    const { caller, models } = await startScene(t, {
      script: ({ body }) =>
        'max_tokens' in body ? reply.status(400, { body: { error: { message } } }) : undefined,
    })
    for (const content of ['a', 'b']) completed(await caller.ask(content, { options: { max_tokens: 5 } }))
    const renamed = { max_completion_tokens: 5 }
    assert.deepEqual(models.requests.map(sentFields), [{ max_tokens: 5 }, renamed, renamed])
  })

  test('a job whose option the server rejects fails with its name', async (t) => {
    const message = "'temperature' does not support 0.2 with this model."
    const { caller, models } = await startScene(t, {
      script: () => reply.status(400, { body: { error: { message } } }),
    })
    const error = failed(await caller.create({ options: ALL }))
    assert.equal(error.code, 'model_error')
    assert.equal(error.message, 'The model server rejected options.temperature of the job.')
    assert.equal(error.upstream_message, message)
    assert.equal(models.completions().length, 1)
  })

  test('wrong options are a 400 that names the field and the rule', async (t) => {
    const { caller } = await begin(t)
    for (const [options, details] of [
      [{ temperature: 2.1 }, /^options\.temperature: .*2/],
      [{ top_p: 0 }, /^options\.top_p: /],
      [{ max_tokens: 0 }, /^options\.max_tokens: /],
      [{ max_tokens: 1.5 }, /^options\.max_tokens: .*integer/],
      [{ stop: ['a', 'b', 'c', 'd', 'e'] }, /^options\.stop: /],
      [{ seed: 2 ** 53 }, /^options\.seed: /],
      [{ reasoning_effort: 'hard' }, /^options\.reasoning_effort: must be one of .*minimal/],
      [{ top_k: 5 }, /^options\.top_k: /],
    ] as const) {
      invalid(await caller.create({ options }), details)
    }
    invalid(await caller.batch([job({ options: { temperature: 3 } })]), /^jobs\[0\]\.options\.temperature: /)
  })

  test('max_output_tokens of a tier limits every job, and is used where a job does not say', async (t) => {
    const { parley, caller, models } = await startScene(t, {
      settings: { tiers: { user_free: { max_output_tokens: 100, reads_per_minute: 1000 } } },
      tier: 'user_free',
    })
    const model = 'gpt-auto'
    const { message, details } = refused(await caller.create({ model, options: { max_tokens: 101 } }), 403)
    assert.match(message, /tier user_free allows 100 tokens/)
    assert.match(details ?? '', /^options\.max_tokens: must be at most 100/)
    completed(await caller.create({ model }))
    completed(await caller.create({ model, options: { max_tokens: 7, seed: 3 } }))
    completed(await (await callerOf(parley)).create({ model }))
    assert.deepEqual(models.requests.map(sentFields), [{ max_tokens: 100 }, { max_tokens: 7, seed: 3 }, {}])
    assert.equal((await caller.me()).limits.max_output_tokens, 100)
  })

  test('operators see the options and the metadata of a job beside its response_format', async (t) => {
    const { parley, caller } = await begin(t)
    const metadata = { customer: 'a "}" b', Ünïcode: '\u0000🙂', empty: '' }
    const id = idOf(await caller.create({ options: ALL, metadata }))
    const data = granted(await (await adminOf(parley)).get(`/jobs/${id}/content`), 200)
    assert.deepEqual([data.response_format, data.options, data.metadata], [{ format: 'text' }, ALL, metadata])
  })
})
