/** Tests calls that fail in transit: the client retries them, and the account pays for them once. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  ConnectionError,
  InvalidRequestError,
  RateLimitError,
  ServerError,
  ServiceUnavailableError,
  TimeoutError,
  UnexpectedResponseError,
} from '../../client/src/index.ts'
import { FakeClock } from '../fake-clock.ts'
import { onAnyStore } from '../on-each-store.ts'
import { asking, clientOf, faultyClient, reasonOf, shareFaulty } from './client.ts'
import type { Fault } from './faulty-proxy.ts'

const ask = { ...asking('Once'), message_cache_ttl: 180 }

/** Without the response cache, every paid call reaches the model server. */
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
  const start = shareFaulty(UNKEPT)

  for (const [name, fault] of passing) {
    test(`a single create and a batch are made and paid once: ${name}`, async (t) => {
      const { parley, models, key, client, proxy } = await start(t)
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
    const { parley, models, key, ...one } = await start(t)
    const other = await faultyClient(t, parley, key)
    one.proxy.script('reset after')
    const lost = one.client.messages.create(ask, { idempotencyKey: 'order-1', maxRetries: 0 })
    assert.equal((await reasonOf(lost, ConnectionError)).idempotencyKey, 'order-1')
    const job = await other.client.messages.create(ask, { idempotencyKey: 'order-1' })
    assert.equal(job.status, 'completed')
    assert.equal(models.requests.length, 1)
  })

  test('without a key nothing is created twice, because it is not retried', async (t) => {
    const { models, client, proxy } = await start(t)
    proxy.script('reset after')
    await assert.rejects(client.messages.create(ask, { idempotencyKey: null }), ConnectionError)
    assert.equal(models.requests.length, 1)
    assert.deepEqual(
      proxy.requests.map(({ idempotencyKey }) => idempotencyKey),
      [undefined],
    )
  })

  test('there are maxRetries retries, with growing pauses, and never before Retry-After', async (t) => {
    const { client, proxy, clientClock } = await start(t)
    const busy = { status: 503, headers: { 'retry-after': '7' } }
    proxy.script('reset before', 'reset before', busy, 'reset before', 'reset before')
    await assert.rejects(client.me(), ConnectionError)
    assert.equal(proxy.requests.length, 5)
    const [first = 0, second = 0, third = 0, fourth = 0] = clientClock.pauses
    assert.ok(first > 249 && first <= 500 && second >= 500 && second <= 1000, String(clientClock.pauses))
    assert.equal(third, 7000)
    assert.ok(fourth >= 2000 && fourth <= 4000)
    proxy.script('reset before')
    await assert.rejects(client.me({ maxRetries: 0 }), ConnectionError)
    assert.equal(proxy.requests.length, 6)
  })

  test('a Retry-After of more than two minutes fails the call', async (t) => {
    const { client, proxy, clientClock } = await start(t)
    const until = (seconds: number) => ({ status: 503, headers: { 'retry-after': String(seconds) } })
    proxy.script(until(121), until(120))
    assert.equal((await reasonOf(client.me(), ServiceUnavailableError)).retryAfter, 121)
    await client.me()
    assert.deepEqual(clientClock.pauses, [120_000])
  })

  test('permanent errors are not retried', async (t) => {
    const { client, proxy } = await start(t)
    await assert.rejects(client.messages.create({ ...ask, messages: [] }), InvalidRequestError)
    for (const [body, says] of [
      ['<html>It works!</html>', /is not from a Parley server/],
      ['{"object":"list"}', /is not from a Parley server/],
      ['{"success":true,"data":{"id":1}}', /is not from a Parley server: \{"success"/],
      ['', /is not from a Parley server: \(empty\)/],
      ['x'.repeat(9000), /is not from a Parley server: x{200}…$/],
    ] as const) {
      proxy.script({ status: 200, body })
      assert.match((await reasonOf(client.messages.create(ask), UnexpectedResponseError)).message, says)
    }
    proxy.script({ status: 301, headers: { location: 'http://127.0.0.1:1/' } })
    await assert.rejects(client.me(), /redirects/)
    assert.equal(proxy.requests.length, 7)
  })

  test('each network failure has its class', async (t) => {
    const { client, proxy } = await start(t, { client: { maxRetries: 0 } })
    const late = {
      status: 429,
      headers: { 'retry-after': '40' },
      body: '{"success":false,"message":"Slower."}',
    }
    proxy.script(late, { status: 503 }, { status: 504, body: 'x'.repeat(9000) }, { status: 408 })
    const { status, retryAfter, message } = await reasonOf(client.me(), RateLimitError)
    assert.deepEqual([status, retryAfter, message], [429, 40, 'Slower.'])
    await assert.rejects(client.me(), ServiceUnavailableError)
    assert.ok((await reasonOf(client.me(), ServerError)).message.length < 400)
    await assert.rejects(client.me(), TimeoutError)
  })

  test('a request without an answer in time is retried, then fails', async (t) => {
    const { client, proxy } = await start(t, { client: { requestTimeout: 0.02, maxRetries: 1 } })
    // The clock ends this `requestTimeout` at once, because it is as short as a pause.
    proxy.script('silence', 'silence')
    assert.match((await reasonOf(client.me(), TimeoutError)).message, /within 0.02 s/)
  })

  test("an abort ends a request, a pause, and a call that has not started, with the abort's reason", async (t) => {
    const { client, proxy } = await start(t)
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
