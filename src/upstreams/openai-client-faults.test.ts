/** Calls that fail: network faults, bodies that are too large, aborted calls. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { describe, it } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { reply } from '../../test/model-server.ts'
import { startReceiver } from '../../test/receiver.ts'
import {
  ask,
  errorOf,
  isError,
  KEY,
  never,
  prompt,
  readHere,
  startClient,
} from '../../test/support/openai-client-setup.ts'
import { selfSigned } from '../../test/support/self-signed.ts'
import { UPSTREAM_DEFAULTS } from '../config/settings.ts'
import { Stop } from '../job/stop.ts'
import { MAX_ANSWER_BYTES, OpenAiClient } from './openai-client.ts'
import { LARGE_ANSWER_BYTES } from './response-body.ts'

describe('a fault', () => {
  it('a refused connection is retryable, and the message contains no address', async (t) => {
    // Nothing listens on port 1. The port of a closed server may belong to another process by now.
    const { client } = await startClient(t, { settings: { base_url: 'http://127.0.0.1:1/v1' } })
    const got = await ask(client, 'm', prompt(), never)
    isError(got)
    assert.equal(got.retryable, true)
    assert.equal(got.status, null)
    assert.match(got.message, /ECONNREFUSED/)
    assert.deepEqual([got.code, got.connection], ['ECONNREFUSED', 'connection'])
    assert.ok(!got.message.includes('127.0.0.1'))
  })

  it('a name that cannot be resolved is named as such', async (t) => {
    // A label of 64 characters is invalid, so no resolver sends it anywhere.
    const base_url = `http://${'a'.repeat(64)}.invalid/v1`
    const { client } = await startClient(t, { settings: { base_url } })
    const got = await ask(client, 'm', prompt(), never)
    isError(got)
    assert.equal(got.connection, 'dns')
    assert.equal(got.retryable, true)
    assert.match(got.message, /^The name of the model server could not be resolved \(E\w+\)\.$/)
  })

  it('a server without TLS, or with an untrusted certificate, is reported as such', async (t) => {
    const { server } = await startClient(t)
    const receiver = await startReceiver({ tls: selfSigned(['models.example.com'], []) }, t)
    for (const [base_url, code] of [
      [server.baseUrl.replace('http:', 'https:'), /^(ERR_SSL_|EPROTO)/],
      [receiver.url, /^DEPTH_ZERO_SELF_SIGNED_CERT$/],
    ] as const) {
      const { client } = await startClient(t, { settings: { base_url } })
      const got = await ask(client, 'm', prompt(), never)
      isError(got)
      assert.equal(got.connection, 'tls')
      assert.match(got.code ?? '', code)
      assert.match(got.message, /^No secure connection to the model server: TLS failed/)
    }
  })

  it('a connection that is never established ends at the connect timeout', async (t) => {
    // A listener that never begins TLS. For undici, a connection exists only after the handshake.
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
      readLarge: readHere,
      settings,
      connectTimeoutMs: 50,
    })
    t.after(async () => {
      await client.close()
      mute.close()
    })
    const got = await ask(client, 'm', prompt(), never)
    isError(got)
    assert.equal(got.retryable, true)
    assert.equal(got.message, 'No connection to the model server within 0.05 s.')
  })

  it('a reset is retryable', async (t) => {
    const got = await errorOf(t, () => reply.reset())
    assert.equal(got.retryable, true)
    assert.equal(got.status, null)
  })

  it('a reset in the middle of the answer is retryable', async (t) => {
    const got = await errorOf(t, () => reply.resetMidBody())
    assert.equal(got.retryable, true)
    assert.match(got.message, /in the middle of its response/)
  })

  it('a response that is not HTTP is retryable', async (t) => {
    const got = await errorOf(t, () => reply.notHttp())
    assert.equal(got.retryable, true)
    assert.equal(got.status, null)
  })

  it('garbage with 200 is not retryable', async (t) => {
    const got = await errorOf(t, () => reply.garbage())
    assert.equal(got.retryable, false)
    assert.equal(got.status, 200)
    assert.match(got.message, /not a chat completion/)
  })

  it('a 200 that is not a chat completion is not retryable', async (t) => {
    const got = await errorOf(t, () => reply.notACompletion())
    assert.equal(got.retryable, false)
    assert.match(got.message, /not a chat completion/)
  })

  for (const [name, script] of [
    ['a stall', () => reply.stall()],
    ['a slow drip', () => reply.drip()],
  ] as const) {
    it(`${name} ends at the call's timeout, and its connection is closed`, async (t) => {
      const { server, client, clock } = await startClient(t, {
        script,
        settings: { call_timeout_seconds: 20 },
      })
      const asked = ask(client, 'm', prompt(), never)
      await server.received(1)
      clock.advance(19_999)
      const early = await Promise.race([asked, new Promise((resolve) => setImmediate(resolve, 'nothing'))])
      assert.equal(early, 'nothing')
      clock.advance(1)
      const got = await asked
      isError(got)
      assert.equal(got.timedOut, true)
      assert.equal(got.retryable, true)
      assert.equal(got.aborted, false)
      assert.equal(await server.requests[0]?.ended, 'cut')
    })
  }

  it('leaves no timer behind', async (t) => {
    const { client, clock } = await startClient(t)
    await ask(client, 'm', prompt(), never)
    assert.deepEqual(clock.pending(), [])
  })
})

describe('a body', () => {
  for (const declare of [true, false]) {
    it(`of 100 MB, ${declare ? 'declared' : 'undeclared'}, is not read to its end`, async (t) => {
      const { server, client } = await startClient(t, { script: () => reply.huge(100_000_000, { declare }) })
      const got = await ask(client, 'm', prompt(), never)
      isError(got)
      assert.equal(got.retryable, false)
      assert.match(got.message, new RegExp(`longer than ${MAX_ANSWER_BYTES} bytes`))
      assert.equal(await server.requests[0]?.ended, 'cut')
      const most = declare ? 8_000_000 : MAX_ANSWER_BYTES + 8_000_000
      assert.ok((server.requests[0]?.sentBytes() ?? 0) < most, 'no more than the socket buffers were sent')
    })
  }

  it('of exactly the limit is accepted, and of one byte more is rejected', async (t) => {
    const { client } = await startClient(t, {
      script: (_request, index) => reply.huge(1_000_000 + index),
      maxAnswerBytes: 1_000_000,
    })
    assert.equal((await ask(client, 'm', prompt(), never)).kind, 'answer')
    assert.equal((await ask(client, 'm', prompt(), never)).kind, 'error')
  })

  it('that is rejected gives the memory of what was read back at once', async (t) => {
    const { client } = await startClient(t, {
      script: () => reply.huge(10 * 1024 * 1024),
      maxAnswerBytes: 8 * 1024 * 1024,
    })
    const before = process.memoryUsage().arrayBuffers
    isError(await ask(client, 'm', prompt(), never))
    const more = process.memoryUsage().arrayBuffers - before
    assert.ok(more < 2 * 1024 * 1024, `${more} bytes more`)
  })

  it('may be large in only a few calls at once; the others wait and lose nothing', async (t) => {
    const { client } = await startClient(t, { script: () => reply.huge(3 * 1024 * 1024) })
    const got = await Promise.all(Array.from({ length: 12 }, () => ask(client, 'm', prompt(), never)))
    assert.deepEqual(new Set(got.map(({ kind }) => kind)), new Set(['answer']))
  })

  it('that waits for a slot for large answers ends at the timeout, or on abort, like any other', async (t) => {
    const half = 'x'.repeat(LARGE_ANSWER_BYTES)
    const { server, client, clock } = await startClient(t, {
      // These answers are larger than allowed without a slot, and never complete, so they hold all slots.
      script: () => (_request, response) => {
        response.writeHead(200).write(half + half)
      },
      settings: { call_timeout_seconds: 20 },
    })
    const stop = new Stop()
    const asked = Array.from({ length: 5 }, () => ask(client, 'm', prompt(), never))
    const aborted = ask(client, 'm', prompt(), stop)
    await server.received(6)
    stop.now('release')
    const got = await aborted
    isError(got)
    assert.equal(got.aborted, true)
    clock.advance(20_000)
    for (const each of await Promise.all(asked)) assert.equal(each.kind === 'error' && each.timedOut, true)
    // The slots are free again.
    server.script = () => reply.huge(1024 * 1024)
    const later = await Promise.all(Array.from({ length: 6 }, () => ask(client, 'm', prompt(), never)))
    assert.deepEqual(new Set(later.map(({ kind }) => kind)), new Set(['answer']))
  })
})

describe('an abort', () => {
  it('ends a call in progress at once and closes its connection', async (t) => {
    const { server, client } = await startClient(t, { script: () => reply.stall() })
    const stop = new Stop()
    const asked = ask(client, 'm', prompt(), stop)
    await server.received(1)
    stop.now('release')
    const got = await asked
    isError(got)
    assert.equal(got.aborted, true)
    assert.equal(got.retryable, false)
    assert.equal(await server.requests[0]?.ended, 'cut')
  })

  it('before the call sends nothing', async (t) => {
    const { server, client } = await startClient(t)
    const stop = new Stop()
    stop.now('release')
    const got = await ask(client, 'm', prompt(), stop)
    isError(got)
    assert.equal(got.aborted, true)
    assert.equal(server.connections(), 0)
  })

  it('while connecting sends nothing either', async (t) => {
    const { server, client } = await startClient(t)
    const stop = new Stop()
    const asked = ask(client, 'm', prompt('first'), stop)
    stop.now('release')
    const got = await asked
    isError(got)
    assert.equal(got.aborted, true)
    await ask(client, 'm', prompt('second'), never)
    assert.deepEqual(
      server.requests.map(({ body }) => body.messages[0]?.content),
      ['second'],
    )
  })

  it('by close ends the calls in progress and later ones', async (t) => {
    const { server, client } = await startClient(t, { script: () => reply.stall() })
    const asked = ask(client, 'm', prompt(), never)
    await server.received(1)
    await client.close()
    for (const got of [await asked, await ask(client, 'm', prompt(), never)]) {
      isError(got)
      assert.equal(got.aborted, true)
    }
    await client.close()
  })
})
