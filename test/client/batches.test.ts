/** Tests the client's batches: any number of jobs, split as the tier allows. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BatchError, ConnectionError, InvalidRequestError, PermissionError } from '../../client/src/index.ts'
import { openDatabase } from '../http/database.ts'
import { onAnyStore } from '../on-each-store.ts'
import { asking, numbered, reasonOf, shareFaulty, startFaulty } from './client.ts'
import type { FaultyProxy } from './faulty-proxy.ts'

const UNRETRIED = { tier: 'user_go', client: { maxRetries: 0 } }

const sizes = ({ requests }: FaultyProxy) =>
  requests.filter(({ method }) => method === 'POST').map(({ body }) => JSON.parse(body).length)

onAnyStore(() => {
  const start = shareFaulty()

  test('75 jobs are sent in batches that the tier allows, and the IDs are in the order of the jobs', async (t) => {
    const { client, proxy } = await start(t)
    const ids = await client.messages.createBatch(numbered(75))
    assert.deepEqual(sizes(proxy), [30, 30, 15])
    const ended = await client.messages.waitAll(ids)
    assert.deepEqual(
      ended.map(({ result }) => result?.response_content),
      Array.from({ length: 75 }, (_, index) => `echo: number ${index}`),
    )
    await client.messages.createBatch(numbered(1))
    assert.equal(proxy.requests.filter(({ path }) => path === '/api/v1/me').length, 1)
  })

  test('without jobs no request is sent', async (t) => {
    const { client, proxy } = await start(t)
    assert.deepEqual(await client.messages.createBatch([]), [])
    assert.equal(proxy.requests.length, 0)
  })

  test('if the tier is lowered meanwhile, its limit is loaded again, and the batches become smaller', async (t) => {
    const { parley, clock, client, proxy } = await startFaulty(t)
    await client.me()
    await parley.store.setTier('user_max', 'user_free')
    clock.advance(2000)
    const ids = await client.messages.createBatch(numbered(5))
    assert.equal(new Set(ids).size, 5)
    assert.deepEqual(sizes(proxy), [5, 2, 2, 1])
  })

  test('a 403 for another reason than the length is thrown unchanged', async (t) => {
    const { client, proxy } = await start(t, { tier: 'user_free' })
    const dear = { ...asking('Hello'), model: 'gpt-5' }
    await assert.rejects(client.messages.createBatch([dear, dear]), PermissionError)
    await assert.rejects(client.messages.createBatch(numbered(5), { batchSize: 3 }), /at most 2/)
    assert.deepEqual(sizes(proxy), [2, 3])
  })

  test('batches are no larger than the server takes in bytes', async (t) => {
    const { client, proxy } = await startFaulty(t, { settings: { limits: { batch_body_bytes: 2000 } } })
    const long = asking('ü'.repeat(400))
    assert.equal((await client.messages.createBatch([long, long, long, long, long])).length, 5)
    assert.deepEqual(sizes(proxy), [2, 2, 1])
    // A job that is too large for any batch must be sent, so that the server rejects it.
    const larger = asking('ü'.repeat(1000))
    await assert.rejects(client.messages.createBatch([larger]), InvalidRequestError)
  })

  test('an error midway reports what was created, and the same call continues from there', async (t) => {
    const { parley, client, proxy } = await startFaulty(t, UNRETRIED)
    proxy.script('pass', 'pass', 'pass', 'reset after')
    const error = await reasonOf(client.messages.createBatch(numbered(45)), BatchError)
    assert.ok(error.cause instanceof ConnectionError)
    assert.equal(error.jobIds.length, 20)
    const { idempotencyKey } = error
    const ids = await client.messages.createBatch(numbered(45), { idempotencyKey })
    assert.deepEqual(ids.slice(0, 20), error.jobIds)
    assert.equal(new Set(ids).size, 45)
    // The third batch was created by the call whose response was lost.
    assert.equal(await (await openDatabase(t, parley)).jobCount(), 45)
  })

  test('if the first batch fails, the same call with the key of the error creates no job twice', async (t) => {
    const { parley, client, proxy } = await startFaulty(t, UNRETRIED)
    proxy.script('pass', 'reset after')
    const error = await reasonOf(client.messages.createBatch(numbered(15)), ConnectionError)
    const ids = await client.messages.createBatch(numbered(15), { idempotencyKey: error.idempotencyKey })
    assert.equal(new Set(ids).size, 15)
    assert.equal(await (await openDatabase(t, parley)).jobCount(), 15)
  })

  test('an abort midway reports what was created, too', async (t) => {
    const { client, proxy } = await start(t, { tier: 'user_free' })
    const controller = new AbortController()
    proxy.script('pass', 'pass', 'silence')
    const call = client.messages.createBatch(numbered(4), { signal: controller.signal })
    await proxy.received(3)
    const reason = new Error('enough')
    controller.abort(reason)
    const error = await reasonOf(call, BatchError)
    assert.deepEqual([error.jobIds.length, error.cause], [2, reason])
  })

  test('a job that is not JSON is found before any is created', async (t) => {
    const { client, proxy } = await start(t, { tier: 'user_free' })
    const callback = { callback_url: 'https://example.com', callback_payload: { order: 1n } }
    await assert.rejects(
      client.messages.createBatch([...numbered(4), { ...asking('Call me'), callback }]),
      TypeError,
    )
    assert.equal(proxy.requests.length, 0)
  })
})
