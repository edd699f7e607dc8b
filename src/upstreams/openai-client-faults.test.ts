/** Tests calls that fail: network faults, bodies that are too large, aborted calls. */
import assert from 'node:assert/strict'
import { createServer } from 'node:net'
import { describe, it } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { reply } from '../../test/model-server.ts'
import { startReceiver } from '../../test/receiver.ts'
import { listen } from '../../test/support/listen.ts'
import { errorOf, prompt, startClient } from '../../test/support/openai-client-setup.ts'
import { selfSigned } from '../../test/support/self-signed.ts'
import { Stop } from '../job/stop.ts'
import { LARGE_ANSWER_BYTES } from './call.ts'
import type { Reply } from './model-server.ts'
import { MAX_ANSWER_BYTES } from './openai-client.ts'

const usual = () => undefined
const kindsOf = (replies: readonly Reply[]) => [...new Set(replies.map(({ kind }) => kind))]

describe('a fault', () => {
  it('a refused connection is retryable, and the message contains no address', async (t) => {
    // Nothing listens on port 1. The port of a closed server may belong to another process by now.
    const got = await errorOf(t, usual, { settings: { base_url: 'http://127.0.0.1:1/v1' } })
    assert.deepEqual([got.retryable, got.status], [true, null])
    assert.deepEqual([got.code, got.connection], ['ECONNREFUSED', 'connection'])
    assert.match(got.message, /ECONNREFUSED/)
    assert.ok(!got.message.includes('127.0.0.1'))
  })

  it('a name that cannot be resolved is named as such', async (t) => {
    // A label of 64 characters is invalid, so no resolver sends it anywhere.
    const got = await errorOf(t, usual, { settings: { base_url: `http://${'a'.repeat(64)}.invalid/v1` } })
    assert.deepEqual([got.connection, got.retryable], ['dns', true])
    assert.match(got.message, /^The name of the model server could not be resolved \(E\w+\)\.$/)
  })

  it('a server without TLS, or with an untrusted certificate, is reported as such', async (t) => {
    const { server } = await startClient(t)
    const receiver = await startReceiver({ tls: selfSigned(['models.example.com'], []) }, t)
    for (const [base_url, code] of [
      [server.baseUrl.replace('http:', 'https:'), /^(ERR_SSL_|EPROTO)/],
      [receiver.url, /^DEPTH_ZERO_SELF_SIGNED_CERT$/],
    ] as const) {
      const got = await errorOf(t, usual, { settings: { base_url } })
      assert.equal(got.connection, 'tls')
      assert.match(got.code ?? '', code)
      assert.match(got.message, /^No secure connection to the model server: TLS failed/)
    }
  })

  it('a connection that is never established ends at the connect timeout', async (t) => {
    // This listener never begins TLS. For undici, a connection exists only after the handshake.
    const base_url = `https://127.0.0.1:${await listen(t, createServer())}/v1`
    const got = await errorOf(t, usual, { settings: { base_url }, connectTimeoutMs: 50 })
    assert.equal(got.retryable, true)
    assert.equal(got.message, 'No connection to the model server within 0.05 s.')
  })

  for (const [name, script, retryable, status, message] of [
    ['a reset is retryable', () => reply.reset(), true, null, /./],
    [
      'a reset in the middle of the answer is retryable',
      () => reply.resetMidBody(),
      true,
      200,
      /in the middle/,
    ],
    ['a response that is not HTTP is retryable', () => reply.notHttp(), true, null, /./],
    ['garbage with 200 is not retryable', () => reply.garbage(), false, 200, /not a chat completion/],
    [
      'a 200 that is not a chat completion is not retryable',
      () => reply.notACompletion(),
      false,
      200,
      /not a chat completion/,
    ],
  ] as const) {
    it(name, async (t) => {
      const got = await errorOf(t, script)
      assert.deepEqual([got.retryable, got.status], [retryable, status])
      assert.match(got.message, message)
    })
  }

  for (const [name, script] of [
    ['a stall', () => reply.stall()],
    ['a slow drip', () => reply.drip()],
  ] as const) {
    it(`${name} ends at the call's timeout, and its connection is closed`, async (t) => {
      const { server, fail, clock } = await startClient(t, { script, settings: { call_timeout_seconds: 20 } })
      const failed = fail()
      await server.received(1)
      clock.advance(19_999)
      assert.equal(await Promise.race([failed, nextTurn('nothing')]), 'nothing')
      clock.advance(1)
      const { timedOut, retryable, aborted } = await failed
      assert.deepEqual([timedOut, retryable, aborted], [true, true, false])
      assert.equal(await server.requests[0]?.ended, 'cut')
    })
  }

  it('leaves no timer behind', async (t) => {
    const { call, clock } = await startClient(t)
    await call()
    assert.deepEqual(clock.pending(), [])
  })
})

describe('a body', () => {
  for (const declare of [true, false]) {
    it(`of 100 MB, ${declare ? 'declared' : 'undeclared'}, is not read to its end`, async (t) => {
      const { server, fail } = await startClient(t, { script: () => reply.huge(100_000_000, { declare }) })
      const { retryable, message } = await fail()
      assert.equal(retryable, false)
      assert.match(message, new RegExp(`longer than ${MAX_ANSWER_BYTES} bytes`))
      assert.equal(await server.requests[0]?.ended, 'cut')
      const most = declare ? 8_000_000 : MAX_ANSWER_BYTES + 8_000_000
      assert.ok((server.requests[0]?.sentBytes() ?? 0) < most, 'no more than the socket buffers were sent')
    })
  }

  it('of exactly the limit is accepted, and of one byte more is rejected', async (t) => {
    const { call } = await startClient(t, {
      script: (_request, index) => reply.huge(1_000_000 + index),
      maxAnswerBytes: 1_000_000,
    })
    assert.deepEqual([(await call()).kind, (await call()).kind], ['answer', 'error'])
  })

  it('that is rejected gives the memory of what was read back at once', async (t) => {
    const MIB = 1024 * 1024
    const { fail } = await startClient(t, { script: () => reply.huge(10 * MIB), maxAnswerBytes: 8 * MIB })
    const before = process.memoryUsage().arrayBuffers
    await fail()
    const more = process.memoryUsage().arrayBuffers - before
    assert.ok(more < 2 * MIB, `${more} bytes more`)
  })

  it('may be large in only a few calls at once; the others wait and lose nothing', async (t) => {
    const { call } = await startClient(t, { script: () => reply.huge(3 * 1024 * 1024) })
    assert.deepEqual(kindsOf(await Promise.all(Array.from({ length: 12 }, () => call()))), ['answer'])
  })

  it('that waits for a slot for large answers ends at the timeout, or on abort, like any other', async (t) => {
    const half = 'x'.repeat(LARGE_ANSWER_BYTES)
    const { server, call, fail, clock } = await startClient(t, {
      // These answers are larger than allowed without a slot, and never complete, so they hold all slots.
      script: () => (_request, response) => {
        response.writeHead(200).write(half + half)
      },
      settings: { call_timeout_seconds: 20 },
    })
    const stop = new Stop()
    const asked = Array.from({ length: 5 }, () => fail())
    const aborted = fail(stop)
    await server.received(6)
    stop.now('release')
    assert.equal((await aborted).aborted, true)
    clock.advance(20_000)
    for (const { timedOut } of await Promise.all(asked)) assert.equal(timedOut, true)
    server.script = () => reply.huge(1024 * 1024)
    assert.deepEqual(kindsOf(await Promise.all(Array.from({ length: 6 }, () => call()))), ['answer'])
  })
})

describe('an abort', () => {
  it('ends a call in progress at once and closes its connection', async (t) => {
    const { server, fail } = await startClient(t, { script: () => reply.stall() })
    const stop = new Stop()
    const failed = fail(stop)
    await server.received(1)
    stop.now('release')
    const { aborted, retryable } = await failed
    assert.deepEqual([aborted, retryable], [true, false])
    assert.equal(await server.requests[0]?.ended, 'cut')
  })

  it('before the call, or while connecting, sends nothing', async (t) => {
    const { server, fail, call } = await startClient(t)
    const stop = new Stop()
    const connecting = fail(stop)
    stop.now('release')
    for (const failed of [connecting, fail(stop)]) assert.equal((await failed).aborted, true)
    await call(prompt('second'))
    assert.deepEqual(
      server.requests.map(({ body }) => body.messages[0]?.content),
      ['second'],
    )
  })

  it('before the call opens no connection', async (t) => {
    const { server, fail } = await startClient(t)
    const stop = new Stop()
    stop.now('release')
    assert.equal((await fail(stop)).aborted, true)
    assert.equal(server.connections(), 0)
  })

  it('by close ends the calls in progress and later ones', async (t) => {
    const { server, client, fail } = await startClient(t, { script: () => reply.stall() })
    const failed = fail()
    await server.received(1)
    await client.close()
    for (const { aborted } of [await failed, await fail()]) assert.equal(aborted, true)
    await client.close()
  })
})
