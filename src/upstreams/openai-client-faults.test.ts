/** Calls that break: faults of the network, bodies that are too large, calls that are ended. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { describe, it } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { reply } from '../../test/model-server.ts'
import { bench, isTrouble, KEY, never, prompt, troubleOf } from '../../test/support/openai-client.ts'
import { UPSTREAM_DEFAULTS } from '../config/settings.ts'
import { Stop } from '../job/stop.ts'
import { LARGE_ANSWER_BYTES } from './http-exchange.ts'
import { MAX_ANSWER_BYTES, OpenAiClient } from './openai-client.ts'

describe('a fault', () => {
  it('nobody listens: worth retrying, and no address is told', async (t) => {
    const { server, client } = await bench(t)
    await server.close()
    const got = await client.ask('m', prompt(), never)
    isTrouble(got)
    assert.equal(got.retryable, true)
    assert.equal(got.status, null)
    assert.match(got.message, /ECONNREFUSED/)
    assert.ok(!got.message.includes('127.0.0.1'))
  })

  it('a connection that is never made ends at the connect timeout', async (t) => {
    // A listener that never begins TLS: to undici the connection is not made before the handshake is.
    const mute = createServer().listen(0, '127.0.0.1')
    await once(mute, 'listening')
    const settings = {
      ...UPSTREAM_DEFAULTS,
      base_url: `https://127.0.0.1:${(mute.address() as AddressInfo).port}/v1`,
    }
    const client = new OpenAiClient({
      name: 'u',
      apiKey: KEY,
      clock: new FakeClock(),
      settings,
      connectTimeoutMs: 50,
    })
    t.after(async () => {
      await client.close()
      mute.close()
    })
    const got = await client.ask('m', prompt(), never)
    isTrouble(got)
    assert.equal(got.retryable, true)
    assert.equal(got.message, 'No connection to the model server within 0.05 s.')
  })

  it('a reset is worth retrying', async (t) => {
    const got = await troubleOf(t, () => reply.reset())
    assert.equal(got.retryable, true)
    assert.equal(got.status, null)
  })

  it('a reset in the middle of the answer is worth retrying', async (t) => {
    const got = await troubleOf(t, () => reply.resetMidBody())
    assert.equal(got.retryable, true)
    assert.match(got.message, /in the middle of its answer/)
  })

  it('what is not HTTP is worth retrying, elsewhere', async (t) => {
    const got = await troubleOf(t, () => reply.notHttp())
    assert.equal(got.retryable, true)
    assert.equal(got.status, null)
  })

  it('garbage with 200 is not worth retrying', async (t) => {
    const got = await troubleOf(t, () => reply.garbage())
    assert.equal(got.retryable, false)
    assert.equal(got.status, 200)
    assert.match(got.message, /no chat completion/)
  })

  it('200 that is no chat completion is not worth retrying', async (t) => {
    const got = await troubleOf(t, () => reply.notACompletion())
    assert.equal(got.retryable, false)
    assert.match(got.message, /no chat completion/)
  })

  for (const [name, script] of [
    ['a stall', () => reply.stall()],
    ['a slow drip', () => reply.drip()],
  ] as const) {
    it(`${name} ends at the call's deadline, and its connection is closed`, async (t) => {
      const { server, client, clock } = await bench(t, { script, settings: { call_timeout_seconds: 20 } })
      const asked = client.ask('m', prompt(), never)
      await server.received(1)
      clock.advance(19_999)
      const early = await Promise.race([asked, new Promise((resolve) => setImmediate(resolve, 'nothing'))])
      assert.equal(early, 'nothing')
      clock.advance(1)
      const got = await asked
      isTrouble(got)
      assert.equal(got.timedOut, true)
      assert.equal(got.retryable, true)
      assert.equal(got.aborted, false)
      assert.equal(await server.requests[0]?.ended, 'cut')
    })
  }

  it('leaves no timer behind', async (t) => {
    const { client, clock } = await bench(t)
    await client.ask('m', prompt(), never)
    assert.deepEqual(clock.pending(), [])
  })
})

describe('a body', () => {
  for (const declare of [true, false]) {
    it(`of 100 MB, ${declare ? 'declared' : 'undeclared'}, is not read to its end`, async (t) => {
      const { server, client } = await bench(t, { script: () => reply.huge(100_000_000, { declare }) })
      const got = await client.ask('m', prompt(), never)
      isTrouble(got)
      assert.equal(got.retryable, false)
      assert.match(got.message, new RegExp(`longer than ${MAX_ANSWER_BYTES} bytes`))
      assert.equal(await server.requests[0]?.ended, 'cut')
      const most = declare ? 8_000_000 : MAX_ANSWER_BYTES + 8_000_000
      assert.ok((server.requests[0]?.sentBytes() ?? 0) < most, 'no more than the socket buffers were sent')
    })
  }

  it('of exactly the limit is taken, and of one byte more is not', async (t) => {
    const { client } = await bench(t, {
      script: (_request, index) => reply.huge(1_000_000 + index),
      maxAnswerBytes: 1_000_000,
    })
    assert.equal((await client.ask('m', prompt(), never)).kind, 'answer')
    assert.equal((await client.ask('m', prompt(), never)).kind, 'trouble')
  })

  it('may be large only in a few calls at once; the others wait and lose nothing', async (t) => {
    const { client } = await bench(t, { script: () => reply.huge(3 * 1024 * 1024) })
    const got = await Promise.all(Array.from({ length: 12 }, () => client.ask('m', prompt(), never)))
    assert.deepEqual(new Set(got.map(({ kind }) => kind)), new Set(['answer']))
  })

  it('that waits for its turn to be large ends at the deadline, or on abort, like any other', async (t) => {
    const half = 'x'.repeat(LARGE_ANSWER_BYTES)
    const { server, client, clock } = await bench(t, {
      // Larger than allowed without a place, and never ended: four of these hold all places.
      script: () => (_request, response) => {
        response.writeHead(200).write(half + half)
      },
      settings: { call_timeout_seconds: 20 },
    })
    const stop = new Stop()
    const asked = Array.from({ length: 5 }, () => client.ask('m', prompt(), never))
    const aborted = client.ask('m', prompt(), stop)
    await server.received(6)
    stop.now('give back')
    const got = await aborted
    isTrouble(got)
    assert.equal(got.aborted, true)
    clock.advance(20_000)
    for (const each of await Promise.all(asked)) assert.equal(each.kind === 'trouble' && each.timedOut, true)
    // The places are free again.
    server.script = () => reply.huge(1024 * 1024)
    const later = await Promise.all(Array.from({ length: 6 }, () => client.ask('m', prompt(), never)))
    assert.deepEqual(new Set(later.map(({ kind }) => kind)), new Set(['answer']))
  })
})

describe('an abort', () => {
  it('ends a call under way at once and closes its connection', async (t) => {
    const { server, client } = await bench(t, { script: () => reply.stall() })
    const stop = new Stop()
    const asked = client.ask('m', prompt(), stop)
    await server.received(1)
    stop.now('give back')
    const got = await asked
    isTrouble(got)
    assert.equal(got.aborted, true)
    assert.equal(got.retryable, false)
    assert.equal(await server.requests[0]?.ended, 'cut')
  })

  it('before the call sends nothing', async (t) => {
    const { server, client } = await bench(t)
    const stop = new Stop()
    stop.now('give back')
    const got = await client.ask('m', prompt(), stop)
    isTrouble(got)
    assert.equal(got.aborted, true)
    assert.equal(server.connections(), 0)
  })

  it('while connecting sends nothing either', async (t) => {
    const { server, client } = await bench(t)
    const stop = new Stop()
    const asked = client.ask('m', prompt('first'), stop)
    stop.now('give back')
    const got = await asked
    isTrouble(got)
    assert.equal(got.aborted, true)
    await client.ask('m', prompt('second'), never)
    assert.deepEqual(
      server.requests.map(({ body }) => body.messages[0]?.content),
      ['second'],
    )
  })

  it('closing ends the calls under way and those to come', async (t) => {
    const { server, client } = await bench(t, { script: () => reply.stall() })
    const asked = client.ask('m', prompt(), never)
    await server.received(1)
    await client.close()
    for (const got of [await asked, await client.ask('m', prompt(), never)]) {
      isTrouble(got)
      assert.equal(got.aborted, true)
    }
    await client.close()
  })
})
