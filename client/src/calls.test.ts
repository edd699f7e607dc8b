/** Tests what all calls have in common: the response, headers of the call, the log, and the user agent. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { type TestContext, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import {
  ApiPromise,
  AuthenticationError,
  ConfigurationError,
  NotFoundError,
  Parley,
  type ParleyOptions,
  UnexpectedResponseError,
  VERSION,
} from './index.ts'
import { userAgent } from './user-agent.ts'

interface Sent {
  readonly method: string
  readonly url: string
  readonly headers: Headers
}

/** The first request gets the first answer, and so on. Further requests get the last answer. */
function answering(answers: readonly (() => Response)[], options: ParleyOptions = {}) {
  const sent: Sent[] = []
  const fetch: typeof globalThis.fetch = async (input, init) => {
    sent.push({ method: init?.method ?? '', url: String(input), headers: new Headers(init?.headers) })
    const answer = answers[Math.min(sent.length, answers.length) - 1]
    assert.ok(answer)
    return answer()
  }
  const clock = {
    nowMs: () => 0,
    steadyMs: () => 0,
    after: (ms: number, callback: () => void) => {
      if (ms < 10_000) queueMicrotask(callback)
      return () => {}
    },
  }
  return {
    client: new Parley({ baseUrl: 'http://localhost:1', apiKey: 'prl_secret', fetch, clock, ...options }),
    sent,
  }
}

const ok = (data: object, headers = {}) => Response.json({ success: true, message: '', data }, { headers })
const refused = (status: number) => Response.json({ success: false, message: 'No.' }, { status })

test('withResponse has the data and the response of the same request', async () => {
  const answer = () => ok({ job_id: 'a' }, { 'x-request-id': 'r-1', 'ratelimit-remaining': '7' })
  const { client, sent } = answering([answer])
  const call = client.messages.retrieve('a')
  assert.ok(call instanceof ApiPromise && call instanceof Promise)
  const { data, response, requestId } = await call.withResponse()
  assert.deepEqual([data, await call], [{ job_id: 'a' }, { job_id: 'a' }])
  assert.deepEqual(
    [response.status, response.headers.get('ratelimit-remaining'), requestId],
    [200, '7', 'r-1'],
  )
  assert.equal(sent.length, 1)
  for (const other of [
    client.me(),
    client.messages.cancel('a'),
    client.messages.delete('a'),
    client.messages.list(),
  ]) {
    assert.equal((await other.withResponse()).requestId, 'r-1')
  }
})

test('an error that ends the wait of createAndWait has the key with which the same call continues it', async () => {
  const job_id = '019a5d3e-8f42-7000-9a1c-2f54b7a1c0de'
  const { client, sent } = answering([() => ok({ status: 'timeout', job_id }), () => refused(401)])
  const job = { model: 'gpt-auto', response_format: { format: 'text' }, messages: [] } as const
  await assert.rejects(client.messages.createAndWait(job), (error) => {
    assert.ok(error instanceof AuthenticationError)
    const key = sent[0]?.headers.get('idempotency-key')
    assert.ok(key)
    assert.equal(error.idempotencyKey, key)
    return true
  })
})

test('an error is thrown where it is waited for, and nowhere else', async (t: TestContext) => {
  const unhandled = t.mock.fn()
  process.on('unhandledRejection', unhandled)
  t.after(() => process.off('unhandledRejection', unhandled))
  const { client } = answering([() => refused(404)])
  await assert.rejects(client.messages.retrieve('a').withResponse(), NotFoundError)
  await assert.rejects(client.messages.retrieve('a'), NotFoundError)
  await assert.rejects(
    client.messages.retrieve('a').finally(() => {}),
    NotFoundError,
  )
  for (let turn = 0; turn < 5; turn++) await setImmediate()
  assert.equal(unhandled.mock.callCount(), 0)
})

test('a call has headers of its own, which replace those of the client, but never the key', async () => {
  const { client, sent } = answering([() => ok({})], { headers: { 'X-Tenant': 'acme', 'x-team': 'a' } })
  await client.messages.cancel('a', {
    headers: { 'x-tenant': 'eve', 'X-Team': null, 'x-api-key': null, traceparent: '00-1' },
  })
  const headers = sent[0]?.headers
  assert.deepEqual(
    ['x-tenant', 'x-team', 'x-api-key', 'traceparent'].map((name) => headers?.get(name)),
    ['eve', null, 'prl_secret', '00-1'],
  )
  await client.me()
  assert.equal(sent[1]?.headers.get('x-tenant'), 'acme')
})

test('cancels and deletes are retried, and a delete whose response was lost has deleted', async () => {
  const { client, sent } = answering([() => refused(503), () => ok({ status: 'failed' })])
  await client.messages.cancel('a/b')
  assert.deepEqual(
    sent.map(({ method, url }) => `${method} ${url}`),
    Array(2).fill('POST http://localhost:1/api/v1/messages/a%2Fb/cancel'),
  )
  const lost = answering([() => refused(502), () => refused(404)])
  assert.deepEqual(await lost.client.messages.delete('A', { dropCallback: true }), {
    job_id: 'a',
    deleted: true,
  })
  assert.equal(lost.sent[0]?.url, 'http://localhost:1/api/v1/messages/A?drop_callback=true')
  await assert.rejects(answering([() => refused(404)]).client.messages.delete('a'), NotFoundError)
})

test('a list reads the pages as they are needed', async () => {
  const page = (from: number, next: string | null) => () =>
    ok({ jobs: from < 0 ? [] : [{ job_id: `${from}` }, { job_id: `${from + 1}` }], next })
  const pages = [page(1, 'b'), page(-1, 'c'), page(3, null)]
  const { client, sent } = answering(pages)
  const seen: string[] = []
  for await (const { job_id } of client.messages.list({ status: 'failed', limit: 2 })) seen.push(job_id)
  assert.deepEqual(seen, ['1', '2', '3', '4'])
  assert.deepEqual(
    sent.map(({ url }) => url.replace(/.*\?/, '')),
    ['status=failed&limit=2', 'status=failed&limit=2&after=b', 'status=failed&limit=2&after=c'],
  )
  const first = answering(pages)
  for await (const _ of first.client.messages.list()) break
  assert.equal(first.sent.length, 1)
  assert.equal(first.sent[0]?.url, 'http://localhost:1/api/v1/messages')
  assert.equal((await answering(pages).client.messages.list()).next, 'b')
})

test('the log has requests and retries, each at its level, and neither keys nor contents', async () => {
  const at = async (logLevel: ParleyOptions['logLevel']) => {
    const lines: string[] = []
    const log = (level: string) => (message: string, fields?: object) =>
      void lines.push(`${level} ${message} ${JSON.stringify(fields)}`)
    const logger = { error: log('error'), warn: log('warn'), info: log('info'), debug: log('debug') }
    const answers = [() => refused(503), () => ok({ result: 'an answer' })]
    const { client } = answering(answers, logLevel === undefined ? { logger } : { logger, logLevel })
    await client.messages.retrieve('a')
    return lines
  }
  assert.deepEqual(await at('off'), [])
  assert.deepEqual(await at('warn'), [])
  const [retry, ...others] = await at(undefined)
  assert.match(
    retry ?? '',
    /^info parley: GET \/api\/v1\/messages\/a: No\.; retry 1 of 4 in [\d.]+ s \{.*"status":503/,
  )
  assert.deepEqual(others, [])
  const all = await at('debug')
  assert.deepEqual(
    all.map((line) => /^\w+/.exec(line)?.[0]),
    ['debug', 'info', 'debug'],
  )
  assert.doesNotMatch(all.join(), /prl_|an answer/)
})

test('PARLEY_LOG sets the level, and a level that does not exist is refused', (t: TestContext) => {
  const debug = t.mock.method(console, 'debug', () => {})
  process.env.PARLEY_LOG = 'debug'
  t.after(() => delete process.env.PARLEY_LOG)
  const { client } = answering([() => ok({})])
  return client.me().then(() => {
    assert.equal(debug.mock.callCount(), 1)
    process.env.PARLEY_LOG = 'loud'
    assert.throws(() => answering([]), ConfigurationError)
  })
})

test('the client names itself, its version and the runtime, but not in browsers', async () => {
  const { client, sent } = answering([() => ok({})])
  await client.me()
  assert.equal(sent[0]?.headers.get('user-agent'), `parley-client/${VERSION} (node ${process.versions.node})`)
  const { version } = JSON.parse(readFileSync(new URL(import.meta.resolve('../package.json')), 'utf8'))
  assert.equal(VERSION, version)
  const node = { versions: { node: '24.0.0' } }
  assert.match(
    userAgent({ process: { versions: { ...node.versions, bun: '1.3.0' } } }) ?? '',
    /\(bun 1\.3\.0\)$/,
  )
  assert.match(userAgent({ process: node, Deno: { version: { deno: '2.5.0' } } }) ?? '', /\(deno 2\.5\.0\)$/)
  assert.equal(userAgent({}), undefined)
  const browser = answering([() => ok({})], { headers: { 'user-agent': 'an app' } })
  await browser.client.me()
  assert.equal(browser.sent[0]?.headers.get('user-agent'), 'an app')
})

const page = (status: number) => () => new Response('<html>default backend</html>', { status })

test('a 404 that is not from Parley does not count as a job that an earlier try deleted', async () => {
  const { client } = answering([page(503), page(404)])
  await assert.rejects(client.messages.delete('a'), UnexpectedResponseError)
})

test('a 404 that is not from Parley does not make later waits poll', async () => {
  const job_id = '01890a5d-ac96-774b-bcce-b302099a8057'
  const job = { job_id, status: 'completed', result: { response_content: 'Hello' }, error: null }
  const found = () => ok({ jobs: [job], not_found: [], more: [] })
  const { client, sent } = answering([page(404), found])
  await assert.rejects(client.messages.wait(job_id), UnexpectedResponseError)
  assert.equal((await client.messages.wait(job_id)).status, 'completed')
  assert.deepEqual(
    sent.map(({ url }) => url.replace(/.*(?=\?)/, '')),
    [`?ids=${job_id}`, `?ids=${job_id}`],
  )
})
