/** Tests what jobs cost: the prices of the target that answered, the sum over all calls, and each place that shows usage. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { type Reply, reply, startModelServer } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { ADMIN_TOKEN, job, type Parley, startParley } from '../parley.ts'
import { startReceiver } from '../receiver.ts'
import { eventually } from '../support/eventually.ts'
import { openaiOf } from '../v1/official-client.ts'
import { CHAT, submitBatch } from '../v1/submit-batch.ts'
import { enqueued, granted } from './expect.ts'
import { startStage } from './stage.ts'

const MESSAGES = '/api/v1/messages'
const USED = `${MESSAGES}?include=usage`
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
/** The cost of one answer by the first target, in millionths of the currency: (30 - 20) * 2 + 20 * 0.5 + 4 * 10. */
const ONE = 70
const answering = (content = 'Amur'): Reply =>
  reply.status(200, {
    body: {
      choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
      usage: {
        prompt_tokens: 30,
        completion_tokens: 4,
        total_tokens: 34,
        prompt_tokens_details: { cached_tokens: 20 },
      },
    },
  })
const ask = (over: object = {}) => job({ model: 'priced', ...over })
const uncached = (seed: number) => ask({ options: { seed } })
interface Cost {
  readonly model?: string
  readonly jobs?: number
  readonly cost?: number
}

// biome-ignore lint/suspicious/noExplicitAny: as `Answer` of the tests
const admin = async (parley: Parley, path: string): Promise<any> => {
  const response = await fetch(`${parley.url}/admin/api${path}`, {
    headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
  })
  return ((await response.json()) as { data: unknown }).data
}

onEachStore(() => {
  test('a job costs its calls; a cached response costs nothing, and a model without a price has no cost', async (t) => {
    const { parley } = await startStage(t, { settings: PRICES, script: () => answering() })
    const key = await parley.key('user_max', 'acme')
    const costOf = async (over: object) => granted(await parley.post(USED, over, key), 200).usage.cost
    assert.equal(await costOf(ask()), ONE)
    assert.equal(await costOf(ask()), 0)
    const free = granted(await parley.post(USED, job({ model: 'free' }), key), 200).usage
    assert.equal('cost' in free, false)
    const me = granted(await parley.get('/api/v1/me', key), 200)
    assert.equal(me.currency, 'EUR')
    assert.equal(me.reserved_cost, 0)
    assert.equal(me.usage.cost, ONE)
    assert.deepEqual(
      me.usage.models.map(({ model, jobs, cost }: Cost) => [model, jobs, cost]),
      [
        ['free', 1, undefined],
        ['priced', 2, ONE],
      ],
    )
    const { usage, currency } = await admin(parley, '/usage')
    assert.equal(currency, 'EUR')
    assert.deepEqual(
      usage.map(({ model, cost }: Cost) => [model, cost]),
      [
        ['free', undefined],
        ['priced', ONE],
      ],
    )
    const { jobs } = await admin(parley, '/jobs')
    assert.deepEqual(
      jobs.map(({ cost }: Cost) => cost),
      [undefined, 0, ONE],
    )
    const { receipt } = await admin(parley, `/jobs/${jobs[2].job_id}/content`)
    assert.deepEqual(
      receipt.calls.map(({ cost }: Cost) => cost),
      [ONE],
    )
  })

  test('repairs and fallbacks are paid for, each by its own target', async (t) => {
    const { parley, models } = await startStage(t, { settings: PRICES })
    const key = await parley.key()
    const format = { response_format: { format: 'json', schema: { type: 'object' } } }
    let calls = 0
    models.script = () => answering(calls++ === 0 ? '[]' : '{}')
    assert.equal(granted(await parley.post(USED, ask(format), key), 200).usage.cost, 2 * ONE)
    models.script = () => answering('[]')
    const failing = granted(await parley.post(USED, ask({ ...format, options: { seed: 1 } }), key), 200)
    assert.equal(failing.status, 'failed')
    assert.equal(failing.usage.cost, 2 * ONE)
    // The first target reports tokens although its call fails.
    models.script = ({ body }) =>
      body.model === 'second'
        ? answering()
        : reply.status(200, {
            body: { error: { message: 'No.', code: 500 }, usage: { prompt_tokens: 7, completion_tokens: 0 } },
          })
    const { usage } = granted(await parley.post(USED, uncached(2), key), 200)
    assert.equal(usage.model, 'second')
    assert.equal(usage.cost, 7 * 2 + 34)
  })

  test('a callback that carries the usage carries the cost', async (t) => {
    const receiver = await startReceiver({}, t)
    const settings = { ...PRICES, callbacks: { allow_networks: ['127.0.0.0/8'] } }
    const { parley } = await startStage(t, { settings, script: () => answering() })
    const callback = { callback_url: receiver.url, callback_payload: {}, include: ['usage'] }
    enqueued(await parley.post(`${MESSAGES}/batches`, [ask({ callback })], await parley.key()), 1)
    const [post] = await receiver.received(1)
    assert.equal(JSON.parse(post?.body ?? '').usage.cost, ONE)
  })

  test('a job that its caller cancels costs the input of the call in progress, and a queued one nothing', async (t) => {
    const settings = { ...PRICES, jobs: { concurrency: 1 } }
    const { parley, models } = await startStage(t, { settings, script: () => reply.stall() })
    const key = await parley.key('user_max', 'acme')
    const batch = await parley.post(`${MESSAGES}/batches`, [uncached(1), uncached(2)], key)
    const [held, queued] = enqueued(batch, 2)
    await models.received(1)
    const reserved = granted(await parley.get('/api/v1/me', key), 200).reserved_cost
    assert.ok(reserved > 2 * 40_960, `${reserved}`)
    const cancel = async (id: string | undefined) => {
      granted(await parley.post(`${MESSAGES}/${id}/cancel`, undefined, key), 200)
      return granted(await parley.get(`${MESSAGES}/${id}?include=usage`, key), 200).usage
    }
    assert.equal((await cancel(queued)).cost, 0)
    const { input_tokens, cost } = await cancel(held)
    assert.ok(input_tokens > 0)
    assert.equal(cost, input_tokens * 2)
    const me = granted(await parley.get('/api/v1/me', key), 200)
    assert.equal(me.reserved_cost, 0)
    assert.equal(me.usage.cost, cost)
  })

  test('the input of calls that a cancelled batch ends costs as much', async (t) => {
    const models = await startModelServer({ script: () => reply.stall() })
    t.after(() => models.close())
    const parley = await startParley(t, { upstream: models.baseUrl, settings: PRICES })
    const key = await parley.key('user_max', 'acme')
    const openai = openaiOf(parley, key)
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
    const { input_tokens, cost } = granted(await parley.get('/api/v1/me', key), 200).usage
    assert.ok(input_tokens > 0)
    assert.equal(cost, input_tokens * 2)
    const { usage } = await admin(parley, `/batches/${id}`)
    assert.deepEqual(usage, { input_tokens, cached_input_tokens: 0, output_tokens: 0, cost })
  })

  test('without prices nothing mentions money', async (t) => {
    const { parley } = await startStage(t, { script: () => answering() })
    const key = await parley.key()
    const { usage } = granted(await parley.post(USED, job(), key), 200)
    const me = granted(await parley.get('/api/v1/me', key), 200)
    assert.doesNotMatch(JSON.stringify([usage, me]), /cost|currency/)
    assert.doesNotMatch(JSON.stringify(await admin(parley, '/usage')), /cost|currency/)
  })
})
