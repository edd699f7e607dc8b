import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { describe, it, type TestContext } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { type ModelServerForTests, reply, type Script, startModelServer } from '../../test/model-server.ts'
import type { UpstreamSettings } from '../config/settings.ts'
import { UPSTREAM_DEFAULTS } from '../config/settings.ts'
import type { Message } from '../job/job.ts'
import { Stop } from '../job/stop.ts'
import { ChatCompletions, type ChatCompletionsOptions, MAX_ANSWER_BYTES } from './chat-completions.ts'
import { LARGE_ANSWER_BYTES } from './exchange.ts'
import type { AnswerForm, Prompt, Reply, Trouble } from './model.ts'

const KEY = 'sk-parley-test-0123456789'
const never = new Stop()

interface Bench {
  readonly server: ModelServerForTests
  readonly client: ChatCompletions
  readonly clock: FakeClock
}

interface BenchOptions extends Partial<Omit<ChatCompletionsOptions, 'settings'>> {
  readonly script?: Script
  readonly settings?: Partial<UpstreamSettings>
}

async function bench(t: TestContext, options: BenchOptions = {}): Promise<Bench> {
  const { script, settings, ...rest } = options
  const server = await startModelServer(script === undefined ? {} : { script })
  const clock = new FakeClock()
  const client = new ChatCompletions({
    name: 'bench',
    apiKey: KEY,
    clock,
    ...rest,
    settings: { ...UPSTREAM_DEFAULTS, base_url: server.baseUrl, ...settings },
  })
  t.after(async () => {
    await client.close()
    await server.close()
  })
  return { server, client, clock }
}

function prompt(content = 'Hello', form: AnswerForm = { kind: 'text' }): Prompt {
  return { messages: [{ role: 'user', content }], form }
}

function isTrouble(reply: Reply): asserts reply is Trouble {
  assert.equal(reply.kind, 'trouble')
}

async function troubleOf(t: TestContext, script: Script): Promise<Trouble> {
  const { client } = await bench(t, { script })
  const got = await client.ask('m', prompt(), never)
  isTrouble(got)
  return got
}

describe('a call', () => {
  it('posts to chat/completions with the key, and not streamed', async (t) => {
    const { server, client } = await bench(t)
    const got = await client.ask('gpt-5', prompt('Hello'), never)
    assert.deepEqual(got, { kind: 'answer', text: 'echo: Hello', tokens: { input: 5, output: 11 } })
    const request = server.requests[0]
    assert.equal(request?.method, 'POST')
    assert.equal(request?.path, '/v1/chat/completions')
    assert.equal(request?.headers.authorization, `Bearer ${KEY}`)
    assert.equal(request?.headers['content-type'], 'application/json')
    assert.deepEqual(request?.body, { model: 'gpt-5', messages: [{ role: 'user', content: 'Hello' }] })
  })

  it('sends no Authorization without a key, and keeps the query of the base address', async (t) => {
    const server = await startModelServer()
    const settings = { ...UPSTREAM_DEFAULTS, base_url: `${server.baseUrl}/?api-version=7` }
    const client = new ChatCompletions({ name: 'u', apiKey: null, clock: new FakeClock(), settings })
    t.after(async () => {
      await client.close()
      await server.close()
    })
    await client.ask('m', prompt(), never)
    assert.equal(server.requests[0]?.headers.authorization, undefined)
    assert.equal(server.requests[0]?.path, '/v1/chat/completions?api-version=7')
  })

  it('sends all four roles in any order, as the caller gave them', async (t) => {
    const { server, client } = await bench(t)
    const messages: Message[] = [
      { role: 'user', content: 'one' },
      { role: 'assistant', content: '' },
      { role: 'developer', content: 'three' },
      { role: 'system', content: 'four \u{1F600} \ud800 "\n' },
      { role: 'user', content: 'five' },
      { role: 'developer', content: 'six' },
    ]
    await client.ask('m', { messages, form: { kind: 'text' } }, never)
    assert.deepEqual(server.requests[0]?.body.messages, messages)
  })

  it('sends developer as system where the server does not know developer', async (t) => {
    const { server, client } = await bench(t, { settings: { roles: 'developer_as_system' } })
    const messages: Message[] = [
      { role: 'developer', content: 'a' },
      { role: 'user', content: 'b' },
      { role: 'system', content: 'c' },
    ]
    await client.ask('m', { messages, form: { kind: 'text' } }, never)
    assert.deepEqual(server.requests[0]?.body.messages, [
      { role: 'system', content: 'a' },
      { role: 'user', content: 'b' },
      { role: 'system', content: 'c' },
    ])
  })

  it('uses as many connections as it may have calls, each for one call at a time', async (t) => {
    const { server, client } = await bench(t, {
      script: () => reply.stall(),
      settings: { max_concurrency: 8 },
    })
    const asked = Array.from({ length: 8 }, (_, n) => client.ask('m', prompt(String(n)), never))
    await server.received(8)
    assert.equal(server.connections(), 8)
    server.release()
    await Promise.all(asked)
    server.script = () => reply.echo()
    for (let n = 0; n < 8; n++) await client.ask('m', prompt(), never)
    assert.equal(server.connections(), 8)
  })

  it('refuses a key that a header cannot carry', () => {
    const settings = { ...UPSTREAM_DEFAULTS, base_url: 'http://127.0.0.1:1/v1' }
    const make = () => new ChatCompletions({ name: 'u', apiKey: 'a\nb', clock: new FakeClock(), settings })
    assert.throws(make, /key of upstream u/)
  })
})

describe('a refusal', () => {
  const cases: [string, Script, string, number][] = [
    ['message.refusal', () => reply.refusal('No, never.'), 'No, never.', 200],
    ['finish_reason content_filter', () => reply.contentFilter('half'), 'filter', 200],
    ...['content_filter', 'content_policy_violation'].map((code): [string, Script, string, number] => [
      `an error coded ${code}`,
      () => reply.status(400, { body: { error: { message: 'Not this.', code } } }),
      'Not this.',
      400,
    ]),
  ]
  for (const [name, script, words, status] of cases) {
    it(`comes from ${name}`, async (t) => {
      const { client } = await bench(t, { script })
      const got = await client.ask('m', prompt(), never)
      assert.equal(got.kind, 'refused')
      if (got.kind === 'refused') {
        assert.match(got.message, new RegExp(words))
        assert.equal(got.status, status)
      }
    })
  }

  it('counts the tokens it cost', async (t) => {
    const { client } = await bench(t, { script: () => reply.refusal('1234') })
    const got = await client.ask('m', prompt('12345'), never)
    assert.deepEqual(got.kind === 'refused' && got.tokens, { input: 5, output: 4 })
  })
})

describe('a failing status', () => {
  for (const status of [408, 409, 429, 500, 502, 503, 529]) {
    it(`${status} is worth retrying`, async (t) => {
      const got = await troubleOf(t, () => reply.status(status))
      assert.deepEqual(got, {
        kind: 'trouble',
        retryable: true,
        retryAfterMs: null,
        status,
        message: `It answers ${status}.`,
        aborted: false,
        timedOut: false,
      })
    })
  }
  for (const status of [301, 400, 401, 403, 404, 413, 422]) {
    it(`${status} is not`, async (t) => {
      const got = await troubleOf(t, () => reply.status(status))
      assert.equal(got.retryable, false)
      assert.equal(got.status, status)
    })
  }

  it('tells how long to wait, in seconds, as a date or in milliseconds', async (t) => {
    const { server, client, clock } = await bench(t)
    const waitOf = async (headers: Record<string, string>) => {
      server.script = () => reply.status(429, { headers })
      const got = await client.ask('m', prompt(), never)
      isTrouble(got)
      return got.retryAfterMs
    }
    assert.equal(await waitOf({ 'retry-after': '7' }), 7000)
    assert.equal(await waitOf({ 'retry-after': '0.5' }), 500)
    assert.equal(await waitOf({ 'retry-after': new Date(clock.nowMs() + 30_000).toUTCString() }), 30_000)
    assert.equal(await waitOf({ 'retry-after': new Date(clock.nowMs() - 30_000).toUTCString() }), 0)
    assert.equal(await waitOf({ 'retry-after': '7', 'retry-after-ms': '1234' }), 1234)
    assert.equal(await waitOf({ 'retry-after': 'soon' }), null)
    assert.equal(await waitOf({}), null)
  })

  it('never shows the key, even where the server echoes it', async (t) => {
    const echo: Script = (request) =>
      reply.status(401, {
        body: { error: { message: `Bad ${KEY} in Authorization: ${request.headers.authorization}!` } },
      })
    const got = await troubleOf(t, echo)
    assert.ok(!got.message.includes('0123456789'), got.message)
    assert.match(got.message, /^Bad \*\*\* in Authorization/)
  })

  it('drops an error body that is too long to explain anything', async (t) => {
    const { server, client } = await bench(t, {
      script: () => reply.status(500, { body: 'x'.repeat(10_000_000) }),
    })
    const got = await client.ask('m', prompt(), never)
    isTrouble(got)
    assert.equal(got.message, 'The model server answered 500.')
    assert.equal(got.retryable, true)
    assert.equal(await server.requests[0]?.ended, 'cut')
  })
})

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
    const client = new ChatCompletions({
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
