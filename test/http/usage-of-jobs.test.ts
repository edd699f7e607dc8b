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
import { LOCAL_CALLBACKS, MESSAGES, shareStage, startScene } from './caller.ts'
import { granted, invalid } from './expect.ts'
import { answering } from './priced-jobs.ts'

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
const NOTHING = { model: null, input_tokens: 0, cached_input_tokens: 0, output_tokens: 0, calls: 0 }
const answer = (over: { content?: string; finish?: string } = {}) =>
  answering(4, { ...over, usage: { prompt_tokens_details: { cached_tokens: 20 } } })

onEachStore(async () => {
  const begin = await shareStage()

  test('creates, reads, waits and lists return the same usage, and only if asked', async (t) => {
    const { caller } = await begin(t, () => answer())
    const get = async (path: string) => granted(await caller.get(`${MESSAGES}${path}`), 200)
    const created = granted(await caller.post(`${MESSAGES}?include=usage`, job()), 200)
    const { usage, job_id: id, ...others } = created
    const plain = { ...others, job_id: id }
    assert.deepEqual(usage, USED)
    assert.deepEqual(await get(`/${id}?include=usage`), created)
    assert.deepEqual((await get(`?ids=${id}&include=usage&wait=1`)).jobs, [created])
    assert.deepEqual((await get('?include=usage')).jobs[0].usage, USED)
    assert.deepEqual(await get(`/${id}`), plain)
    assert.deepEqual((await get(`?ids=${id}`)).jobs, [plain])
    assert.equal('usage' in (await get('')).jobs[0], false)
    assert.equal('usage' in granted(await caller.create({ options: { seed: 1 } }), 200), false)
    invalid(await caller.read(id, '?include=usage,cost'), /^include\[1\]: must be one of usage/)
    const wrong = await caller.post(`${MESSAGES}?include=cost`, job())
    invalid(wrong, /^include\[0\]: must be one of usage/)
  })

  test('usage says that a text was cut, that an answer was repaired or cached, and what a failure used', async (t) => {
    const { caller, models } = await begin(t, () => answer({ finish: 'length' }))
    const usageOf = async (over: object) =>
      granted(await caller.post(`${MESSAGES}?include=usage`, job({ ...over })), 200).usage
    const cut = { options: { max_tokens: 4 } }
    assert.deepEqual(await usageOf(cut), { ...USED, finish_reason: 'length' })
    // A truncated answer is not cached, because later callers could not know that it was truncated.
    assert.deepEqual(await usageOf(cut), { ...USED, finish_reason: 'length' })
    models.script = () => answer()
    await usageOf({})
    assert.deepEqual(await usageOf({}), { ...USED, ...NOTHING, cache_hit: true })
    const twice = { ...USED, input_tokens: 60, cached_input_tokens: 40, output_tokens: 8, calls: 2 }
    const format = { response_format: { format: 'json', schema: { type: 'object' } } }
    let calls = 0
    models.script = () => answer({ content: calls++ === 0 ? '[]' : '{}' })
    assert.deepEqual(await usageOf(format), { ...twice, repaired: true })
    models.script = () => answer({ content: '[]' })
    assert.deepEqual(await usageOf({ ...format, options: { seed: 2 } }), { ...twice, finish_reason: null })
  })

  test('an open job has no usage yet, and a cancelled one has what its runs used', async (t) => {
    const { caller, models } = await begin(t, () => reply.stall())
    const id = await caller.enqueueOne()
    await models.received(1)
    const usageOf = async () => granted(await caller.read(id, '?include=usage'), 200).usage
    assert.equal(await usageOf(), null)
    granted(await caller.cancel(id), 200)
    const { model, finish_reason } = await usageOf()
    assert.deepEqual([model, finish_reason], [null, null])
  })

  test('a callback carries the usage if it asks', async (t) => {
    const receiver = await startReceiver({}, t)
    const { caller } = await startScene(t, { settings: LOCAL_CALLBACKS, script: () => answer() })
    const callback = { callback_url: receiver.url, callback_payload: { n: 1 } }
    const asking = (include: string) => job({ callback: { ...callback, include: [include] } })
    await caller.enqueue([asking('usage'), job({ callback, options: { seed: 1 } })])
    const posts = (await receiver.received(2)).map(({ body }) => JSON.parse(body))
    assert.deepEqual(
      posts.filter((body) => 'usage' in body).map(({ usage }) => usage),
      [USED],
    )
    const rule = /^jobs\[0\]\.callback\.include\[0\]: must be one of usage/
    invalid(await caller.batch([asking('cost')]), rule)
  })

  test('the client returns the usage from creates, reads, waits and lists', async (t) => {
    const { parley: server, caller } = await begin(t, () => answer())
    const { messages } = new Parley({ baseUrl: server.url, apiKey: caller.key })
    const include = ['usage'] as const
    const created = await messages.createAndWait(
      {
        model: 'gpt-5-mini',
        response_format: { format: 'text' },
        messages: [{ role: 'user', content: 'A river?' }],
        options: { temperature: 0 },
      },
      { include },
    )
    const id = created.job_id
    const { jobs } = await messages.list({ include })
    for (const { usage } of [
      created,
      await messages.retrieve(id, { include }),
      await messages.wait(id, { include }),
      ...(await messages.waitAll([id], { include })),
      ...jobs,
    ]) {
      assert.deepEqual(usage, USED)
    }
    assert.equal((await messages.retrieve(id)).usage, undefined)
  })
})
