/** Calls that fail in transit: retried, and paid for once. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  ConnectionError,
  InvalidRequestError,
  type JobFields,
  RateLimitError,
  ServerError,
  ServiceUnavailableError,
  type TextFormat,
  TimeoutError,
  UnexpectedResponseError,
} from '../../client/src/index.ts'
import { FakeClock } from '../fake-clock.ts'
import { startStage } from '../http/stage.ts'
import { onAnyStore } from '../on-each-store.ts'
import { clientOf, faultyClient } from './client.ts'
import type { Fault } from './faulty-proxy.ts'

const ask: JobFields<TextFormat> = {
  model: 'gpt-5-mini',
  response_format: { format: 'text' },
  messages: [{ role: 'user', content: 'Once' }],
  message_cache_ttl: 180,
}

/** Turns the response cache off, so that every paid call reaches the model server. */
const UNKEPT = { settings: { cache: { enabled: false } } }

const passing: readonly (readonly [name: string, fault: Fault])[] = [
  ['the connection breaks before the server hears of it', 'reset before'],
  ['the connection breaks after the server has answered', 'reset after'],
  ['half of the answer arrives', 'cut the answer'],
  ['503', { status: 503, headers: { 'retry-after': '1' }, body: '{"success":false,"message":"Not now."}' }],
  ['429', { status: 429, headers: { 'retry-after': '1' } }],
  ['502 from something in between', { status: 502, body: '<html>Bad gateway</html>' }],
]

onAnyStore(() => {
  for (const [name, fault] of passing) {
    test(`a single create and a batch are made and paid once: ${name}`, async (t) => {
      const { parley, models } = await startStage(t, UNKEPT)
      const key = await parley.key()
      const { client, proxy } = await faultyClient(t, parley, key)
      await client.me()
      proxy.script(fault, fault)
      const job = await client.messages.createAndWait(ask)
      assert.equal(job.result.response_content, 'echo: Once')
      assert.equal(models.requests.length, 1)
      proxy.script(fault, fault)
      const ids = await client.messages.createBatch([ask, ask])
      assert.equal(new Set(ids).size, 2)
      await Promise.all(ids.map((id) => parley.ended(id, key)))
      assert.equal(models.requests.length, 3)
      const creates = proxy.requests.filter(({ method }) => method === 'POST')
      assert.equal(new Set(creates.map(({ idempotencyKey }) => idempotencyKey)).size, 2)
      assert.equal(creates.length, 6)
    })
  }

  test('calls of different processes with the same key create one job', async (t) => {
    const { parley, models } = await startStage(t, UNKEPT)
    const key = await parley.key()
    const [one, other] = [await faultyClient(t, parley, key), await faultyClient(t, parley, key)]
    one.proxy.script('reset after')
    const lost = one.client.messages.create(ask, { idempotencyKey: 'order-1', maxRetries: 0 })
    await assert.rejects(lost, (error) => {
      assert.ok(error instanceof ConnectionError)
      assert.equal(error.idempotencyKey, 'order-1')
      return true
    })
    const job = await other.client.messages.create(ask, { idempotencyKey: 'order-1' })
    assert.equal(job.status, 'completed')
    assert.equal(models.requests.length, 1)
  })

  test('without a key nothing is created twice, because it is not retried', async (t) => {
    const { parley, models } = await startStage(t, UNKEPT)
    const { client, proxy } = await faultyClient(t, parley, await parley.key())
    proxy.script('reset after')
    await assert.rejects(client.messages.create(ask, { idempotencyKey: null }), ConnectionError)
    assert.equal(models.requests.length, 1)
    assert.deepEqual(
      proxy.requests.map(({ idempotencyKey }) => idempotencyKey),
      [undefined],
    )
  })

  test('there are maxRetries retries, with growing pauses, and never before Retry-After', async (t) => {
    const { parley } = await startStage(t)
    const { client, proxy, clock } = await faultyClient(t, parley, await parley.key())
    const busy = { status: 503, headers: { 'retry-after': '7' } }
    proxy.script('reset before', 'reset before', busy, 'reset before', 'reset before')
    await assert.rejects(client.me(), ConnectionError)
    assert.equal(proxy.requests.length, 5)
    const [first = 0, second = 0, third = 0, fourth = 0] = clock.pauses
    assert.ok(first > 249 && first <= 500 && second >= 500 && second <= 1000, String(clock.pauses))
    assert.equal(third, 7000)
    assert.ok(fourth >= 2000 && fourth <= 4000)
    proxy.script('reset before')
    await assert.rejects(client.me({ maxRetries: 0 }), ConnectionError)
    assert.equal(proxy.requests.length, 6)
  })

  test('a Retry-After of more than two minutes fails the call', async (t) => {
    const { parley } = await startStage(t)
    const { client, proxy, clock } = await faultyClient(t, parley, await parley.key())
    const until = (seconds: number) => ({ status: 503, headers: { 'retry-after': String(seconds) } })
    proxy.script(until(121), until(120))
    await assert.rejects(client.me(), (error) => {
      assert.ok(error instanceof ServiceUnavailableError)
      assert.equal(error.retryAfter, 121)
      return true
    })
    await client.me()
    assert.deepEqual(clock.pauses, [120_000])
  })

  test('permanent errors are not retried', async (t) => {
    const { parley } = await startStage(t)
    const { client, proxy } = await faultyClient(t, parley, await parley.key())
    await assert.rejects(client.messages.create({ ...ask, messages: [] }), InvalidRequestError)
    proxy.script({ status: 200, body: '<html>It works!</html>' })
    await assert.rejects(client.me(), UnexpectedResponseError)
    proxy.script({ status: 200, body: '{"object":"list"}' })
    await assert.rejects(client.me(), /is not from a Parley server/)
    proxy.script({ status: 200, body: '{"success":true,"data":{"id":1}}' })
    await assert.rejects(client.messages.create(ask), /is not from a Parley server: \{"success"/)
    proxy.script({ status: 200, body: '' })
    await assert.rejects(client.me(), /is not from a Parley server: \(empty\)/)
    proxy.script({ status: 301, headers: { location: 'http://127.0.0.1:1/' } })
    await assert.rejects(client.me(), /redirects/)
    assert.equal(proxy.requests.length, 6)
  })

  test('each network failure has its class', async (t) => {
    const { parley } = await startStage(t)
    const { client, proxy } = await faultyClient(t, parley, await parley.key(), { maxRetries: 0 })
    const late = {
      status: 429,
      headers: { 'retry-after': '40' },
      body: '{"success":false,"message":"Slower."}',
    }
    proxy.script(late, { status: 503 }, { status: 504, body: 'x'.repeat(9000) }, { status: 408 })
    await assert.rejects(client.me(), (error) => {
      assert.ok(error instanceof RateLimitError)
      assert.deepEqual([error.status, error.retryAfter, error.message], [429, 40, 'Slower.'])
      return true
    })
    await assert.rejects(client.me(), ServiceUnavailableError)
    await assert.rejects(client.me(), (error) => error instanceof ServerError && error.message.length < 400)
    await assert.rejects(client.me(), TimeoutError)
  })

  test('a request without an answer in time is retried, then fails', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    const { client, proxy } = await faultyClient(t, parley, key, { requestTimeout: 0.02, maxRetries: 1 })
    // The test's clock ends so short a `requestTimeout` at once, as it ends pauses.
    proxy.script('silence', 'silence')
    await assert.rejects(client.me(), (error) => {
      assert.ok(error instanceof TimeoutError)
      assert.match(error.message, /within 0.02 s/)
      return true
    })
  })

  test("an abort ends a request, a pause, and a call that has not started, with the abort's reason", async (t) => {
    const { parley } = await startStage(t)
    const { client, proxy } = await faultyClient(t, parley, await parley.key())
    const reason = new Error('enough')
    await assert.rejects(client.me({ signal: AbortSignal.abort(reason) }), reason)
    assert.equal(proxy.requests.length, 0)
    const silent = new AbortController()
    proxy.script('silence')
    const call = client.me({ signal: silent.signal })
    await proxy.received(1)
    silent.abort(reason)
    await assert.rejects(call, reason)
    const pausing = new AbortController()
    const clock = new FakeClock()
    const patient = clientOf(proxy, 'prl_any', { clock })
    proxy.script('reset before')
    const again = patient.me({ signal: pausing.signal })
    await clock.timerSet((ms) => ms <= 500)
    pausing.abort(reason)
    await assert.rejects(again, reason)
    assert.deepEqual(clock.pending(), [])
  })
})
