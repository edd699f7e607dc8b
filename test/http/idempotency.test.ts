/** Tests the `Idempotency-Key` header on the two routes that create jobs. */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job, type Parley } from '../parley.ts'
import { callerOf, DAY_MS, idOf, shareStage, startScene } from './caller.ts'
import { completed, enqueued, failed, invalid, refused, timedOut } from './expect.ts'
import { startStage } from './stage.ts'

const ORDER = { 'idempotency-key': 'order-1' }
const CONFLICT =
  'Idempotency-Key: was already used with a different request; use a new key for each new request.'
const TWO = [job(), job()]

const payload = (id: string) =>
  `"callback":{"callback_url":"https://example.com","callback_payload":{"id":${id}}}`
const schema = (id: string) => `"response_format":{"format":"json","schema":{"enum":[${id}]}}`

/** A request that repeats a key must have the same values in these parts, which are JSON texts. */
const PARTS: readonly [name: string, one: string, other: string][] = [
  ['another message_cache_ttl', '"message_cache_ttl":301', '"message_cache_ttl":302'],
  ['another deadline', '"complete_within":5', '"complete_within":6'],
  ['other metadata', '"metadata":{"n":"1"}', '"metadata":{"n":"2"}'],
  ['a payload that differs beyond the 53rd bit', payload('9007199254740993'), payload('9007199254740992')],
  ['a schema that differs beyond the 53rd bit', schema('9007199254740993'), schema('9007199254740992')],
]

/**
 * Resolves when a repeated request reads the earlier job, right after it has started to wait for that job. The number of
 * pending responses can't tell this: a repeated request first waits for a job of its own, until Parley knows that an earlier
 * request had the same key.
 */
function jobIsRead(t: TestContext, { store }: Parley): Promise<void> {
  const { read } = store
  return new Promise((resolve) => {
    t.mock.method(store, 'read', (...args: Parameters<typeof read>) => {
      resolve()
      return read(...args)
    })
  })
}

onEachStore(() => {
  const begin = shareStage()

  test('4.1 the same key and body give the same identifiers', async (t) => {
    const { parley, caller } = await begin(t)
    const ids = await caller.enqueue(TWO, ORDER)
    assert.deepEqual(await caller.enqueue(TWO, ORDER), ids)
    // Idempotency keys belong to the account, so a request with another API key of the account repeats it.
    const other = await callerOf(parley, 'user_max', caller.account)
    assert.deepEqual(await other.enqueue(TWO, ORDER), ids)
    assert.equal((await caller.jobIds()).length, 2)
  })

  test('4.1 without the header, and under another key, the same body makes new jobs', async (t) => {
    const { caller } = await begin(t)
    const ids = new Set<string>()
    for (const headers of [{}, {}, ORDER, { 'idempotency-key': 'order-2' }]) {
      ids.add(await caller.enqueueOne({}, headers))
    }
    assert.equal(ids.size, 4)
  })

  test('4.1 400 for the same key with another body, and no job is created', async (t) => {
    const { caller } = await begin(t)
    await caller.enqueueOne({}, ORDER)
    invalid(await caller.batch(TWO, ORDER), CONFLICT)
    assert.equal((await caller.jobIds()).length, 1)
  })

  for (const [name, one, other] of PARTS) {
    test(`4.1 400 for the same key with ${name}`, async (t) => {
      const { caller } = await startScene(t, { script: () => reply.stall() })
      const send = (part: string) => caller.batch(JSON.stringify([job()]).replace(/}]$/, `,${part}}]`), ORDER)
      const ids = enqueued(await send(one), 1)
      assert.deepEqual(enqueued(await send(one), 1), ids)
      invalid(await send(other), CONFLICT)
      invalid(await caller.batch([job()], ORDER), CONFLICT)
    })
  }

  test('4.3 a repeated single create that has ended is answered at once with the same job', async (t) => {
    const { caller, models } = await startScene(t, { settings: { sync: { max_waiters: 4 } } })
    const first = await caller.create({}, ORDER)
    completed(first)
    for (let repeated = 0; repeated < 5; repeated++) {
      const { status, text, headers } = await caller.create({}, ORDER)
      assert.deepEqual([status, text, headers.get('x-cache')], [200, first.text, null])
    }
    assert.equal(models.requests.length, 1)
    // The repeated requests must no longer occupy waiting slots.
    completed(await caller.create({ model: 'gpt-5' }))
  })

  test('4.3 a repeated single create that has failed is not run again', async (t) => {
    const { caller, models } = await begin(t, () => reply.status(400))
    const first = await caller.create({}, ORDER)
    failed(first)
    assert.equal((await caller.create({}, ORDER)).text, first.text)
    assert.equal(models.requests.length, 1)
  })

  test('4.3 a repeated single create waits for the same job, for its own timeout', async (t) => {
    const { parley, caller, models, clock } = await begin(t, () => reply.stall())
    const first = caller.create({}, ORDER)
    await models.received(1)
    clock.advance(60_000)
    const repeated = jobIsRead(t, parley)
    const second = caller.create({}, ORDER)
    await repeated
    clock.advance(30_000)
    const id = timedOut(await first)
    clock.advance(59_999)
    assert.ok(clock.pending().includes(1), 'the second wait ended early')
    models.release()
    const answer = await second
    completed(answer)
    assert.deepEqual([idOf(answer), models.requests.length], [id, 1])
  })

  test('4.3 of concurrent creates under one key one makes the job, and all are answered with it', async (t) => {
    const { caller, models } = await begin(t)
    const answers = await Promise.all(Array.from({ length: 20 }, () => caller.create({}, ORDER)))
    for (const answer of answers) completed(answer)
    assert.equal(new Set(answers.map(({ text }) => text)).size, 1)
    assert.deepEqual([models.requests.length, (await caller.jobIds()).length], [1, 1])
  })

  test('4.1 of concurrent batches under one key with different bodies one is accepted', async (t) => {
    const { caller } = await begin(t)
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, index) =>
        caller.batch([job({ message_cache_ttl: 300 + index }), job()], ORDER),
      ),
    )
    const [accepted, ...conflicts] = answers.toSorted((a, b) => a.status - b.status)
    assert.ok(accepted)
    enqueued(accepted, 2)
    for (const answer of conflicts) invalid(answer, CONFLICT)
    assert.equal((await caller.jobIds()).length, 2)
  })

  test('4.3 a single create without a free waiting slot returns the same ID, too', async (t) => {
    const { caller, models } = await startScene(t, {
      settings: { sync: { max_waiters: 0 } },
      script: () => reply.stall(),
    })
    const id = timedOut(await caller.create({}, ORDER))
    await models.received(1)
    assert.equal(timedOut(await caller.create({}, ORDER)), id)
    assert.equal(models.requests.length, 1)
  })

  test('a key is remembered for 24 hours', async (t) => {
    const { caller, clock } = await begin(t)
    const id = await caller.enqueueOne({}, ORDER)
    clock.skip(DAY_MS - 1)
    assert.equal(await caller.enqueueOne({}, ORDER), id)
    clock.advance(1)
    const later = await caller.enqueueOne({ model: 'gpt-5' }, ORDER)
    assert.notEqual(later, id)
    assert.equal(await caller.enqueueOne({ model: 'gpt-5' }, ORDER), later)
  })

  test('a key is remembered over a restart', async (t) => {
    const scene = await startScene(t)
    const ids = await scene.caller.enqueue(TWO, ORDER)
    await scene.parley.stop()
    const { parley } = await startStage(t, { after: scene })
    assert.deepEqual(await scene.caller.at(parley).enqueue(TWO, ORDER), ids)
  })

  test('keys of different accounts and of the two creates have nothing to do with each other', async (t) => {
    const { parley, caller } = await begin(t)
    const other = await callerOf(parley, 'user_max', 'other')
    const first = await caller.create({}, ORDER)
    const second = await other.create({}, ORDER)
    for (const answer of [first, second]) completed(answer)
    assert.notEqual(idOf(first), idOf(second))
    invalid(await caller.batch([job()], ORDER), CONFLICT)
  })

  test('a rejected request is not remembered', async (t) => {
    const { caller } = await begin(t, undefined, 'user_free')
    invalid(await caller.create({ messages: [] }, ORDER), /^messages: /)
    refused(await caller.create({ model: 'gpt-5' }, ORDER), 403)
    completed(await caller.create({}, ORDER))
  })

  test('400 for a key that is empty, too long, or not visible ASCII', async (t) => {
    const { caller } = await begin(t)
    const rule = 'Idempotency-Key: must be 1 to 255 visible ASCII characters'
    for (const given of ['', 'a b', 'x'.repeat(256), 'caf\u00e9']) {
      const headers = { 'idempotency-key': given }
      invalid(await caller.create({}, headers), rule)
      invalid(await caller.batch([job()], headers), rule)
    }
    completed(await caller.create({}, { 'idempotency-key': '~'.repeat(255) }))
  })
})
