/**
 * Tests what jobs cost, from the prices of the target that answered and over all calls. Tests `include=usage`, which adds what
 * a job used to creates, reads, waits, lists and callbacks.
 */
import assert from 'node:assert/strict'
import test from 'node:test'
import { Parley as Client } from '../../client/src/index.ts'
import { reply, startModelServer } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { ADMIN_TOKEN, type Answer, job, type Parley, startParley } from '../parley.ts'
import { startReceiver } from '../receiver.ts'
import { eventually } from '../support/eventually.ts'
import { openaiOf } from '../v1/official-client.ts'
import { CHAT, submitBatch } from '../v1/submit-batch.ts'
import { callerOf, LOCAL_CALLBACKS, MESSAGES, shareStage, startScene } from './caller.ts'
import { granted, invalid } from './expect.ts'
import { answering } from './priced-jobs.ts'

const PRICES = {
  currency: 'EUR',
  models: {
    priced: {
      price: { input: 2, cached_input: 0.5, output: 10 },
      targets: [
        { upstream: 'openai', model: 'first' },
        { upstream: 'openai', model: 'second', price: { input: 1, output: 1 } },
      ],
    },
    free: { targets: [{ upstream: 'openai', model: 'free' }] },
  },
}
/** The first target's answer costs (30 - 20) * 2 + 20 * 0.5 + 4 * 10 millionths of the currency. */
const ONE = 70
const ask = (over: object = {}) => job({ model: 'priced', ...over })
const uncached = (seed: number) => ask({ options: { seed } })

const admin = async (parley: Parley, path: string): Promise<Answer['body']> =>
  granted(await parley.get(`/admin/api${path}`, undefined, { authorization: `Bearer ${ADMIN_TOKEN}` }), 200)
const parts = (all: Answer['body'], ...names: string[]) =>
  all.map((one: Record<string, unknown>) => names.map((name) => one[name]))

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

onEachStore(() => {
  const begin = shareStage({ settings: { ...PRICES, ...LOCAL_CALLBACKS } })

  test('a job costs its calls; a cached response costs nothing, and a model without a price has no cost', async (t) => {
    const { parley, caller } = await begin(t, () => answer())
    const usageOf = async (body: object) =>
      granted(await caller.post(`${MESSAGES}?include=usage`, body), 200).usage
    assert.equal((await usageOf(ask())).cost, ONE)
    assert.equal((await usageOf(ask())).cost, 0)
    assert.equal('cost' in (await usageOf(job({ model: 'free' }))), false)
    const me = await caller.me()
    assert.deepEqual([me.currency, me.reserved_cost, me.usage.cost], ['EUR', 0, ONE])
    assert.deepEqual(parts(me.usage.models, 'model', 'jobs', 'cost'), [
      ['free', 1, undefined],
      ['priced', 2, ONE],
    ])
    const { usage, currency } = await admin(parley, `/usage?account=${caller.account}`)
    assert.equal(currency, 'EUR')
    assert.deepEqual(parts(usage, 'model', 'cost'), [
      ['free', undefined],
      ['priced', ONE],
    ])
    const { jobs } = await admin(parley, `/jobs?account=${caller.account}`)
    assert.deepEqual(parts(jobs, 'cost'), [[undefined], [0], [ONE]])
    const { receipt } = await admin(parley, `/jobs/${jobs[2].job_id}/content`)
    assert.deepEqual(parts(receipt.calls, 'cost'), [[ONE]])
  })

  test('repairs and fallbacks are paid for, each by its own target', async (t) => {
    const { caller, models } = await begin(t)
    const create = async (body: object) => granted(await caller.post(`${MESSAGES}?include=usage`, body), 200)
    const format = { response_format: { format: 'json', schema: { type: 'object' } } }
    let calls = 0
    models.script = () => answer({ content: calls++ === 0 ? '[]' : '{}' })
    assert.equal((await create(ask(format))).usage.cost, 2 * ONE)
    models.script = () => answer({ content: '[]' })
    const failing = await create(ask({ ...format, options: { seed: 1 } }))
    assert.deepEqual([failing.status, failing.usage.cost], ['failed', 2 * ONE])
    const failure = {
      error: { message: 'No.', code: 500 },
      usage: { prompt_tokens: 7, completion_tokens: 0 },
    }
    models.script = ({ body }) => (body.model === 'second' ? answer() : reply.status(200, { body: failure }))
    const { usage } = await create(uncached(2))
    assert.deepEqual([usage.model, usage.cost], ['second', 7 * 2 + 34])
  })

  test('a callback that carries the usage carries the cost', async (t) => {
    const receiver = await startReceiver({}, t)
    const { caller } = await begin(t, () => answer())
    const callback = { callback_url: receiver.url, callback_payload: {}, include: ['usage'] }
    await caller.enqueue([ask({ callback })])
    const [post] = await receiver.received(1)
    assert.equal(JSON.parse(post?.body ?? '').usage.cost, ONE)
  })

  test('a job that its caller cancels costs the input of the call in progress, and a queued one nothing', async (t) => {
    const settings = { ...PRICES, jobs: { concurrency: 1 } }
    const { caller, models } = await startScene(t, { settings, script: () => reply.stall() })
    const [held, queued] = await caller.enqueue([uncached(1), uncached(2)])
    await models.received(1)
    const reserved = (await caller.me()).reserved_cost
    assert.ok(reserved > 2 * 40_960, `${reserved}`)
    const cancel = async (id: string | undefined) => {
      granted(await caller.cancel(id), 200)
      return granted(await caller.read(id, '?include=usage'), 200).usage
    }
    assert.equal((await cancel(queued)).cost, 0)
    const { input_tokens, cost } = await cancel(held)
    assert.ok(input_tokens > 0)
    assert.equal(cost, input_tokens * 2)
    const { reserved_cost, usage } = await caller.me()
    assert.deepEqual([reserved_cost, usage.cost], [0, cost])
  })

  test('the input of calls that a cancelled batch ends costs as much', async (t) => {
    const models = await startModelServer({ script: () => reply.stall() })
    t.after(() => models.close())
    const parley = await startParley(t, { upstream: models.baseUrl, settings: PRICES })
    const caller = await callerOf(parley)
    const openai = openaiOf(parley, caller.key)
    const body = { model: 'priced', messages: [{ role: 'user', content: 'Hello' }] }
    const line = { custom_id: 'a', method: 'POST', url: CHAT, body }
    const { id } = await submitBatch(openai, [], [JSON.stringify(line)])
    await models.received(1)
    await openai.batches.cancel(id)
    await eventually(
      () => openai.batches.retrieve(id),
      ({ status }) => status === 'cancelled',
      { signal: t.signal },
    )
    const { input_tokens, cost } = (await caller.me()).usage
    assert.ok(input_tokens > 0)
    assert.equal(cost, input_tokens * 2)
    const { usage } = await admin(parley, `/batches/${id}`)
    assert.deepEqual(usage, { input_tokens, cached_input_tokens: 0, output_tokens: 0, cost })
  })

  test('without prices nothing mentions money', async (t) => {
    const { parley, caller } = await startScene(t, { script: () => answer() })
    const { usage } = granted(await caller.post(`${MESSAGES}?include=usage`, job()), 200)
    const shown = [usage, await caller.me(), await admin(parley, '/usage')]
    assert.doesNotMatch(JSON.stringify(shown), /cost|currency/)
  })

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
    const { caller } = await begin(t, () => answer())
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
    const { messages } = new Client({ baseUrl: server.url, apiKey: caller.key })
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
