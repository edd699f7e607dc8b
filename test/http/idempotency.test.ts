/** Tests the `Idempotency-Key` header of the two creates. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job, type Parley } from '../parley.ts'
import { openDatabase } from './database.ts'
import { completed, enqueued, invalid, refused, timedOut } from './expect.ts'
import { startStage } from './stage.ts'

const MESSAGES = '/api/v1/messages'
const BATCHES = '/api/v1/messages/batches'
const DAY_MS = 86_400_000
const ORDER = { 'idempotency-key': 'order-1' }
const CONFLICT =
  'Idempotency-Key: was already used with a different request; use a new key for each new request.'

onEachStore(() => {
  test('4.1 the same key and body give the same identifiers', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    const ids = enqueued(await parley.post(BATCHES, [job(), job()], key, ORDER), 2)
    assert.deepEqual(enqueued(await parley.post(BATCHES, [job(), job()], key, ORDER), 2), ids)
    // Idempotency keys belong to the account, so a request with another API key of the account repeats it.
    assert.deepEqual(enqueued(await parley.post(BATCHES, [job(), job()], await parley.key(), ORDER), 2), ids)
    assert.equal(await (await openDatabase(t, parley)).jobCount(), 2)
  })

  test('4.1 without the header, and under another key, the same body makes new jobs', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    const ids = new Set<string>()
    for (const headers of [{}, {}, ORDER, { 'idempotency-key': 'order-2' }]) {
      for (const id of enqueued(await parley.post(BATCHES, [job()], key, headers), 1)) ids.add(id)
    }
    assert.equal(ids.size, 4)
  })

  test('4.1 400 for the same key with another body, and no job is created', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    enqueued(await parley.post(BATCHES, [job()], key, ORDER), 1)
    invalid(await parley.post(BATCHES, [job(), job()], key, ORDER), CONFLICT)
    invalid(await parley.post(BATCHES, [job({ message_cache_ttl: 301 })], key, ORDER), CONFLICT)
    assert.equal(await (await openDatabase(t, parley)).jobCount(), 1)
  })

  test('4.1 400 for the same key with a payload that differs beyond the 53rd bit', async (t) => {
    const { parley } = await startStage(t, { script: () => reply.stall() })
    const key = await parley.key()
    const body = (id: string) => {
      const callback = { callback_url: 'https://example.com', callback_payload: { id: 'ID' } }
      return JSON.stringify([job({ callback })]).replace('"ID"', id)
    }
    enqueued(await parley.post(BATCHES, body('9007199254740993'), key, ORDER), 1)
    enqueued(await parley.post(BATCHES, body('9007199254740993'), key, ORDER), 1)
    invalid(await parley.post(BATCHES, body('9007199254740992'), key, ORDER), CONFLICT)
  })

  test('4.1 400 for the same key with a schema that differs beyond the 53rd bit', async (t) => {
    const { parley } = await startStage(t, { script: () => reply.stall() })
    const key = await parley.key()
    const body = (id: string) => {
      const format = { format: 'json', schema: { enum: ['ID'] } }
      return JSON.stringify([job({ response_format: format })]).replace('"ID"', id)
    }
    const ids = enqueued(await parley.post(BATCHES, body('9007199254740993'), key, ORDER), 1)
    assert.deepEqual(enqueued(await parley.post(BATCHES, body('9007199254740993'), key, ORDER), 1), ids)
    invalid(await parley.post(BATCHES, body('9007199254740992'), key, ORDER), CONFLICT)
  })

  test('4.3 a repeated single create that has ended is answered at once with the same job', async (t) => {
    const { parley, models } = await startStage(t, { settings: { sync: { max_waiters: 4 } } })
    const key = await parley.key()
    const first = await parley.post(MESSAGES, job(), key, ORDER)
    completed(first)
    for (let repeated = 0; repeated < 5; repeated++) {
      const second = await parley.post(MESSAGES, job(), key, ORDER)
      assert.equal(second.text, first.text)
      assert.equal(second.status, 200)
      assert.equal(second.headers.get('x-cache'), null)
    }
    assert.equal(models.requests.length, 1)
    // No wait is left over that would occupy a waiting slot.
    completed(await parley.post(MESSAGES, job({ model: 'gpt-5' }), key))
  })

  test('4.3 a repeated single create that has failed is not run again', async (t) => {
    const { parley, models } = await startStage(t, { script: () => reply.status(400) })
    const key = await parley.key()
    const first = await parley.post(MESSAGES, job(), key, ORDER)
    assert.equal(first.body.data.status, 'failed')
    assert.equal((await parley.post(MESSAGES, job(), key, ORDER)).text, first.text)
    assert.equal(models.requests.length, 1)
  })

  test('4.3 a repeated single create waits for the same job, for its own timeout', async (t) => {
    const { parley, models, clock } = await startStage(t, { script: () => reply.stall() })
    const key = await parley.key()
    const first = parley.post(MESSAGES, job(), key, ORDER)
    await models.received(1)
    clock.advance(60_000)
    const repeated = jobIsRead(parley.store)
    const second = parley.post(MESSAGES, job(), key, ORDER)
    await repeated
    clock.advance(30_000)
    const id = timedOut(await first)
    clock.advance(59_999)
    assert.ok(clock.pending().includes(1), 'the second wait ended early')
    models.release()
    const answer = await second
    completed(answer)
    assert.equal(answer.body.data.job_id, id)
    assert.equal(models.requests.length, 1)
  })

  test('4.3 202 with the same identifier when the repeated wait ends', async (t) => {
    const { parley, models, clock } = await startStage(t, { script: () => reply.stall() })
    const key = await parley.key()
    const repeated = jobIsRead(parley.store)
    const answers = [parley.post(MESSAGES, job(), key, ORDER), parley.post(MESSAGES, job(), key, ORDER)]
    await models.received(1)
    await repeated
    clock.advance(90_000)
    const [first, second] = (await Promise.all(answers)).map(timedOut)
    assert.equal(first, second)
  })

  test('4.3 of concurrent creates under one key one makes the job, and all are answered with it', async (t) => {
    const { parley, models } = await startStage(t)
    const key = await parley.key()
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => parley.post(MESSAGES, job(), key, ORDER)),
    )
    for (const answer of answers) completed(answer)
    assert.equal(new Set(answers.map(({ text }) => text)).size, 1)
    assert.equal(models.requests.length, 1)
    assert.equal(await (await openDatabase(t, parley)).jobCount(), 1)
  })

  test('4.1 of concurrent batches under one key with different bodies one is accepted', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, index) =>
        parley.post(BATCHES, [job({ message_cache_ttl: 300 + index }), job()], key, ORDER),
      ),
    )
    const [accepted, ...conflicts] = answers.toSorted((a, b) => a.status - b.status)
    assert.ok(accepted)
    enqueued(accepted, 2)
    for (const answer of conflicts) invalid(answer, CONFLICT)
    assert.equal(await (await openDatabase(t, parley)).jobCount(), 2)
  })

  test('4.3 a single create without a free waiting slot returns the same ID, too', async (t) => {
    const { parley, models } = await startStage(t, {
      settings: { sync: { max_waiters: 0 } },
      script: () => reply.stall(),
    })
    const key = await parley.key()
    const id = timedOut(await parley.post(MESSAGES, job(), key, ORDER))
    await models.received(1)
    assert.equal(timedOut(await parley.post(MESSAGES, job(), key, ORDER)), id)
    assert.equal(models.requests.length, 1)
  })

  test('a key is remembered for 24 hours', async (t) => {
    const { parley, clock } = await startStage(t)
    const key = await parley.key()
    const [id] = enqueued(await parley.post(BATCHES, [job()], key, ORDER), 1)
    clock.skip(DAY_MS - 1)
    assert.deepEqual(enqueued(await parley.post(BATCHES, [job()], key, ORDER), 1), [id])
    clock.advance(1)
    const [later] = enqueued(await parley.post(BATCHES, [job({ model: 'gpt-5' })], key, ORDER), 1)
    assert.notEqual(later, id)
    assert.deepEqual(enqueued(await parley.post(BATCHES, [job({ model: 'gpt-5' })], key, ORDER), 1), [later])
  })

  test('a key is remembered over a restart', async (t) => {
    const stage = await startStage(t)
    const key = await stage.parley.key()
    const ids = enqueued(await stage.parley.post(BATCHES, [job(), job()], key, ORDER), 2)
    await stage.parley.stop()
    const { parley } = await startStage(t, { after: stage })
    assert.deepEqual(enqueued(await parley.post(BATCHES, [job(), job()], key, ORDER), 2), ids)
  })

  test('keys of different accounts and of the two creates have nothing to do with each other', async (t) => {
    const { parley } = await startStage(t)
    const [one, other] = [await parley.key('user_max', 'one'), await parley.key('user_max', 'other')]
    const [first] = enqueued(await parley.post(BATCHES, [job()], one, ORDER), 1)
    const [second] = enqueued(await parley.post(BATCHES, [job()], other, ORDER), 1)
    assert.notEqual(first, second)
    invalid(await parley.post(MESSAGES, job(), one, ORDER), CONFLICT)
  })

  test('a rejected request is not remembered', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key('user_free')
    invalid(await parley.post(MESSAGES, job({ messages: [] }), key, ORDER), /^messages: /)
    refused(await parley.post(MESSAGES, job({ model: 'gpt-5' }), key, ORDER), 403)
    completed(await parley.post(MESSAGES, job(), key, ORDER))
  })

  test('400 for a key that is empty, too long, or not visible ASCII', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    const rule = 'Idempotency-Key: must be 1 to 255 visible ASCII characters'
    for (const given of ['', 'a b', 'x'.repeat(256), 'caf\u00e9']) {
      const headers = { 'idempotency-key': given }
      invalid(await parley.post(MESSAGES, job(), key, headers), rule)
      invalid(await parley.post(BATCHES, [job()], key, headers), rule)
    }
    const longest = { 'idempotency-key': '~'.repeat(255) }
    completed(await parley.post(MESSAGES, job(), key, longest))
  })
})

/**
 * Resolves when a repeated request reads the earlier job, which it does right after it has started to wait for that job. The
 * number of pending responses can't tell this: a repeated request first waits for a job of its own, until Parley knows that the
 * request is a repetition.
 */
function jobIsRead(store: Parley['store']): Promise<void> {
  const { read } = store
  return new Promise((resolve) => {
    store.read = (...args) => {
      resolve()
      return read.apply(store, args)
    }
  })
}
