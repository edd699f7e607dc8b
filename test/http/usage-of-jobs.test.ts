/**
 * Tests `include=usage`, which adds what a job used to creates, reads, waits, lists and callbacks. Without it, nothing is
 * added.
 */
import assert from 'node:assert/strict'
import test from 'node:test'
import { Parley } from '../../client/src/index.ts'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { startReceiver } from '../receiver.ts'
import { enqueued, granted, invalid } from './expect.ts'
import { startStage } from './stage.ts'

const MESSAGES = '/api/v1/messages'
const USED = {
  model: 'gpt-5-mini',
  input_tokens: 30,
  cached_input_tokens: 20,
  output_tokens: 4,
  calls: 1,
  cache_hit: false,
  repaired: false,
  finish_reason: 'stop',
}
const answering = (over: object = {}, finish_reason = 'stop', content = 'Amur') =>
  reply.status(200, {
    body: {
      choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason }],
      usage: {
        prompt_tokens: 30,
        completion_tokens: 4,
        total_tokens: 34,
        prompt_tokens_details: { cached_tokens: 20 },
        ...over,
      },
    },
  })
const ask = (over = {}) => job({ model: 'gpt-5-mini', ...over })

onEachStore(() => {
  test('creates, reads, waits and lists return the same usage, and only if asked', async (t) => {
    const { parley } = await startStage(t, { script: () => answering() })
    const key = await parley.key()
    const get = (path: string) => parley.get(`${MESSAGES}${path}`, key)
    const created = granted(await parley.post(`${MESSAGES}?include=usage`, ask(), key), 200)
    assert.deepEqual(created.usage, USED)
    const id = created.job_id
    assert.deepEqual(granted(await get(`/${id}?include=usage`), 200), created)
    assert.deepEqual(granted(await get(`?ids=${id}&include=usage&wait=1`), 200).jobs, [created])
    const { jobs } = granted(await get('?include=usage'), 200)
    assert.deepEqual(jobs[0].usage, USED)
    const { usage: _, ...plain } = created
    assert.deepEqual(granted(await get(`/${id}`), 200), plain)
    assert.deepEqual(granted(await get(`?ids=${id}`), 200).jobs, [plain])
    assert.equal('usage' in granted(await get(''), 200).jobs[0], false)
    assert.equal(
      'usage' in granted(await parley.post(MESSAGES, ask({ options: { seed: 1 } }), key), 200),
      false,
    )
    invalid(await get(`/${id}?include=usage,cost`), /^include\[1\]: must be one of usage/)
    invalid(await parley.post(`${MESSAGES}?include=cost`, ask(), key), /^include\[0\]: must be one of usage/)
  })

  test('usage says that a text was cut, that an answer was repaired or cached, and what a failure used', async (t) => {
    const { parley, models } = await startStage(t, { script: () => answering({}, 'length') })
    const key = await parley.key()
    const usageOf = async (over: object) =>
      granted(await parley.post(`${MESSAGES}?include=usage`, ask(over), key), 200).usage
    const cut = { options: { max_tokens: 4 } }
    assert.deepEqual(await usageOf(cut), { ...USED, finish_reason: 'length' })
    // A truncated answer is not cached, because later callers could not know that it was truncated.
    assert.deepEqual(await usageOf(cut), { ...USED, finish_reason: 'length' })
    models.script = () => answering()
    await usageOf({})
    const cached = {
      ...USED,
      model: null,
      input_tokens: 0,
      cached_input_tokens: 0,
      output_tokens: 0,
      calls: 0,
    }
    assert.deepEqual(await usageOf({}), { ...cached, cache_hit: true })
    const twice = { ...USED, input_tokens: 60, cached_input_tokens: 40, output_tokens: 8, calls: 2 }
    const format = { response_format: { format: 'json', schema: { type: 'object' } } }
    let calls = 0
    models.script = () => answering({}, 'stop', calls++ === 0 ? '[]' : '{}')
    assert.deepEqual(await usageOf(format), { ...twice, repaired: true })
    models.script = () => answering({}, 'stop', '[]')
    const other = { ...format, options: { seed: 2 } }
    assert.deepEqual(await usageOf(other), { ...twice, finish_reason: null })
  })

  test('an open job has no usage yet, and a cancelled one has what its runs used', async (t) => {
    const { parley, models } = await startStage(t, { script: () => reply.stall() })
    const key = await parley.key()
    const [id] = enqueued(await parley.post(`${MESSAGES}/batches`, [ask()], key), 1)
    await models.received(1)
    assert.equal(granted(await parley.get(`${MESSAGES}/${id}?include=usage`, key), 200).usage, null)
    granted(await parley.post(`${MESSAGES}/${id}/cancel`, undefined, key), 200)
    const { usage } = granted(await parley.get(`${MESSAGES}/${id}?include=usage`, key), 200)
    assert.equal(usage.model, null)
    assert.equal(usage.finish_reason, null)
  })

  test('a callback carries the usage if it asks', async (t) => {
    const receiver = await startReceiver({}, t)
    const settings = { callbacks: { allow_networks: ['127.0.0.0/8'] } }
    const { parley } = await startStage(t, { settings, script: () => answering() })
    const key = await parley.key()
    const callback = { callback_url: receiver.url, callback_payload: { n: 1 } }
    const batch = [
      ask({ callback: { ...callback, include: ['usage'] } }),
      ask({ callback, options: { seed: 1 } }),
    ]
    enqueued(await parley.post(`${MESSAGES}/batches`, batch, key), 2)
    const posts = (await receiver.received(2)).map(({ body }) => JSON.parse(body))
    assert.deepEqual(
      posts.filter((body) => 'usage' in body).map(({ usage }) => usage),
      [USED],
    )
    assert.equal(posts.filter((body) => 'usage' in body).length, 1)
    const wrong = [ask({ callback: { ...callback, include: ['cost'] } })]
    invalid(
      await parley.post(`${MESSAGES}/batches`, wrong, key),
      /^jobs\[0\]\.callback\.include\[0\]: must be one of usage/,
    )
  })

  test('the client returns the usage from creates, reads, waits and lists', async (t) => {
    const { parley: server } = await startStage(t, { script: () => answering() })
    const parley = new Parley({ baseUrl: server.url, apiKey: await server.key() })
    const include = ['usage'] as const
    const text = { format: 'text' } as const
    const messages = [{ role: 'user', content: 'A river?' }] as const
    const request = { model: 'gpt-5-mini', response_format: text, messages, options: { temperature: 0 } }
    const created = await parley.messages.createAndWait(request, { include })
    assert.deepEqual(created.usage, USED)
    assert.deepEqual((await parley.messages.retrieve(created.job_id, { include })).usage, USED)
    assert.deepEqual((await parley.messages.wait(created.job_id, { include })).usage, USED)
    const [first] = await parley.messages.waitAll([created.job_id], { include })
    assert.deepEqual(first?.usage, USED)
    const { jobs } = await parley.messages.list({ include })
    assert.deepEqual(jobs[0]?.usage, USED)
    assert.equal((await parley.messages.retrieve(created.job_id)).usage, undefined)
  })
})
