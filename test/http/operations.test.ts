/** Tests the routes for operators, the route by which callers check their limits, and what applies to every response. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test from 'node:test'
import { DEFAULTS } from '../../src/config/settings.ts'
import { StoreUnavailable } from '../../src/store/store.ts'
import { onEachStore } from '../on-each-store.ts'
import { type Answer, job } from '../parley.ts'
import { metric } from '../support/outage.ts'
import { BATCHES, type Caller, callerOf, ME, MESSAGES, shareStage, startScene } from './caller.ts'
import { granted, refused } from './expect.ts'
import { talk } from './raw-http.ts'

const PREFLIGHT = {
  'access-control-request-method': 'POST',
  'access-control-request-headers': 'x-api-key,content-type,idempotency-key',
}
const GIB = 2 ** 30

onEachStore(() => {
  const begin = shareStage()

  test('/api/v1/me: the tier, its models and limits, what is left of the reads, and the retention', async (t) => {
    const { parley, caller, clock } = await startScene(t, {
      settings: { tiers: { user_free: { reads_per_minute: 5 } } },
      tier: 'user_free',
      account: 'somebody',
    })
    const expected = {
      account: 'somebody',
      key_id: (await parley.store.listKeys())[0]?.id,
      tier: 'user_free',
      models: ['gpt-5-mini', 'gpt-auto'],
      limits: {
        max_batch_jobs: 2,
        reads_per_minute: 5,
        creates_per_minute: null,
        max_input_tokens: 16_000,
        max_output_tokens: null,
        priorities: ['normal', 'low'],
        max_monthly_jobs: null,
        max_monthly_tokens: null,
        max_open_jobs: 1000,
        max_stored_bytes: 1_073_741_824,
        body_bytes: 2_097_152,
        batch_body_bytes: 10_485_760,
        message_cache_ttl: { least: 180, most: 3600, default: 300 },
        timeout: { least: 30, most: 120, default: 90 },
      },
      reads: { remaining: 5, resets_in_seconds: 60 },
      retention_seconds: 604_800,
      idempotency_seconds: 86_400,
      open_jobs: 0,
      stored_bytes: 0,
      suspended: false,
      usage: {
        month: '2026-01',
        resets_at: Date.UTC(2026, 1) / 1000,
        jobs: 0,
        failed_jobs: 0,
        cache_hits: 0,
        calls: 0,
        input_tokens: 0,
        output_tokens: 0,
        models: [],
      },
    }
    assert.deepEqual(await caller.me(), expected)
    for (let read = 0; read < 7; read++) await caller.read(randomUUID())
    clock.advance(15_500)
    assert.deepEqual((await caller.me()).reads, { remaining: 0, resets_in_seconds: 45 })
  })

  test('/api/v1/me: the limits and quotas of each tier by default, and the highest has no quota', async (t) => {
    const { parley } = await startScene(t, { settings: { tiers: {} } })
    const found = []
    for (const name of Object.keys(DEFAULTS.tiers)) {
      const { tier, limits } = await (await callerOf(parley, name)).me()
      const { max_batch_jobs, reads_per_minute, max_input_tokens, max_open_jobs, max_stored_bytes } = limits
      found.push([tier, max_batch_jobs, reads_per_minute, max_input_tokens, max_open_jobs, max_stored_bytes])
    }
    assert.deepEqual(found, [
      ['user_free', 2, 300, 16_000, 1000, GIB],
      ['user_go', 10, 600, 64_000, 10_000, 10 * GIB],
      ['user_pro', 20, 1200, 128_000, 100_000, 100 * GIB],
      ['user_max', 30, 3000, 256_000, null, null],
    ])
  })

  test('/healthz and /readyz', async (t) => {
    const { parley } = await begin(t)
    assert.deepEqual(granted(await parley.get('/healthz'), 200), { status: 'alive' })
    assert.deepEqual(granted(await parley.get('/readyz'), 200), { status: 'ready' })
    t.mock.method(parley.store, 'ping', () => Promise.reject(new StoreUnavailable('the disk is full')))
    const answer = await parley.get('/readyz')
    refused(answer, 503)
    assert.equal(answer.headers.get('retry-after'), '1')
    granted(await parley.get('/healthz'), 200)
  })

  for (const [name, operation, send] of [
    ['4.1 a batch', 'accept', (caller) => caller.batch([job(), job()])],
    ['4.2 a read', 'read', (caller) => caller.read(randomUUID())],
    ['4.3 a single create', 'accept', (caller) => caller.create()],
  ] as readonly [string, 'accept' | 'read', (caller: Caller) => Promise<Answer>][]) {
    test(`${name}: 500 says nothing of its cause, and the log does`, async (t) => {
      const { parley, caller } = await begin(t)
      t.mock.method(parley.store, operation, () => Promise.reject(new Error('a bug in the store')))
      const answer = await send(caller)
      refused(answer, 500, { message: 'Internal server error.', details: null })
      const line = parley.log.findLast(({ level }) => level === 'error')
      const id = answer.headers.get('x-request-id')
      assert.deepEqual([line?.error, line?.request_id], ['a bug in the store', id])
    })

    test(`${name}: 503 with Retry-After while the storage is down, and no job is created`, async (t) => {
      const { parley, caller } = await begin(t)
      const before = await metric(parley, 'parley_database_rejections_total')
      t.mock.method(parley.store, operation, () => Promise.reject(new StoreUnavailable('the disk is full')))
      const answer = await send(caller)
      const { message, details } = refused(answer, 503)
      assert.equal(message, 'Service temporarily unavailable.')
      if (operation === 'accept') assert.match(details ?? '', /^Nothing was created/)
      assert.equal(answer.headers.get('retry-after'), '1')
      assert.deepEqual(await caller.jobIds(), [])
      assert.equal(await metric(parley, 'parley_database_rejections_total'), before + 1)
    })
  }

  test('every answer carries x-request-id, and so does its log line', async (t) => {
    const { parley, caller } = await startScene(t, { settings: { limits: { body_bytes: 1024 } } })
    const answers: Answer[] = [
      await caller.create(),
      await caller.batch([job()]),
      await caller.get(ME),
      await parley.get('/healthz'),
      await parley.get('/metrics'),
      await parley.get('/openapi.json'),
      await parley.get('/docs/'),
      await caller.post(MESSAGES, '{'),
      await parley.get(ME),
      await (await callerOf(parley, 'user_free')).create({ model: 'gpt-5' }),
      await caller.read(randomUUID()),
      await caller.get('/unknown'),
      await parley.get('/%zz'),
      await caller.read('%zz'),
      await caller.read('x'.repeat(9000)),
      await caller.post(MESSAGES, 'x'.repeat(2000)),
      await caller.post(MESSAGES, '{}', { 'content-type': 'text/plain' }),
      await talk(parley, 'HELLO\r\n\r\n'),
    ]
    const ids = answers.map(({ headers }) => headers.get('x-request-id'))
    assert.equal(new Set(ids).size, answers.length)
    // A log line may follow its response a little later, but is written before the server has stopped.
    await parley.stop()
    for (const [index, { status }] of answers.entries()) {
      const line = parley.log.find(
        ({ message, request_id }) => message === 'request completed' && request_id === ids[index],
      )
      assert.equal(line?.status, status, `answer ${index}`)
    }
  })

  test('the log line names the route, the account and the jobs, never the address as sent', async (t) => {
    const { parley, caller } = await startScene(t, { account: 'somebody' })
    const batch = await caller.post(`${BATCHES}?secret=1`, [job(), job()], { 'x-request-id': 'batch-1' })
    const { job_ids } = granted(batch, 202)
    const path = `${MESSAGES}/${job_ids[0]}?secret=1`
    await parley.get(path, caller.key, { 'x-request-id': 'read-1' })
    await parley.stop()
    const common = { account: 'somebody', from: '127.0.0.1', level: 'info', message: 'request completed' }
    for (const expected of [
      { request_id: 'batch-1', method: 'POST', route: BATCHES, status: 202, job_ids },
      {
        request_id: 'read-1',
        method: 'GET',
        route: `${MESSAGES}/:jobId`,
        status: 200,
        job_ids: [job_ids[0]],
      },
    ]) {
      const line = parley.log.find(({ request_id }) => request_id === expected.request_id)
      assert.deepEqual(line, { ...common, ms: line?.ms, ...expected })
    }
  })

  test('x-request-id is the caller’s own where it is fit for a header and a log', async (t) => {
    const { parley } = await begin(t)
    const idOf = async (given: string) =>
      (await parley.get('/healthz', undefined, { 'x-request-id': given })).headers.get('x-request-id')
    for (const given of ['a', '4bf92f3577b34da6-00f067aa0ba902b7', '~'.repeat(128)]) {
      assert.equal(await idOf(given), given)
    }
    for (const given of ['', 'a b', 'x'.repeat(129), 'caf\u00e9', 'a\tb']) {
      const id = await idOf(given)
      assert.ok(id !== null && id !== given && id.length > 8, given)
    }
  })

  test('CORS is off by default: no header says otherwise, and a preflight only learns the methods', async (t) => {
    const { parley, caller } = await begin(t)
    const origin = 'https://app.example'
    const answer = await parley.get(ME, caller.key, { origin })
    granted(answer, 200)
    const preflight = await parley.request(MESSAGES, { method: 'OPTIONS', headers: { origin, ...PREFLIGHT } })
    assert.equal(preflight.status, 204)
    assert.match(preflight.headers.get('allow') ?? '', /POST/)
    for (const [name] of [...answer.headers, ...preflight.headers])
      assert.doesNotMatch(name, /^access-control-/)
  })

  test('CORS: pages of the named origins may call, and no others', async (t) => {
    const origins = ['https://app.example', 'https://other.example']
    const { parley, caller } = await startScene(t, { settings: { cors: { origins } } })
    const send = (method: string, path: string, headers: Record<string, string>) =>
      parley.request(path, { method, headers })
    const parts = (answer: Answer, name: string) => answer.headers.get(name)?.split(', ') ?? []
    const { body: described } = await parley.get('/openapi.json')
    const sent = new Set(['x-api-key', ...headersIn(described)])
    assert.ok(sent.size > 1)
    for (const origin of [...origins, 'https://evil.example', 'https://app.example.evil.example', 'null']) {
      const isAllowed = origins.includes(origin)
      const preflight = await send('OPTIONS', MESSAGES, { origin, ...PREFLIGHT })
      const methods = isAllowed ? ['GET', 'POST', 'DELETE'] : []
      assert.deepEqual(parts(preflight, 'access-control-allow-methods'), methods)
      if (isAllowed) assert.equal(preflight.status, 204)
      for (const name of ['content-type', 'traceparent', 'user-agent', ...sent]) {
        assert.equal(parts(preflight, 'access-control-allow-headers').includes(name), isAllowed, name)
      }
      // The response depends on the origin, so a cache must not serve it for another origin.
      assert.equal(preflight.headers.get('vary'), 'Origin')
      // Pages must be able to read error responses, too.
      const answers = [
        await parley.get(ME, caller.key, { origin }),
        await parley.get(ME, undefined, { origin }),
        await parley.get(`${MESSAGES}/${randomUUID()}`, caller.key, { origin }),
        await parley.get('/api/v1/none', caller.key, { origin }),
        await parley.get(`${MESSAGES}/%zz`, caller.key, { origin }),
        await send('PUT', MESSAGES, { origin }),
        await send('OPTIONS', '/none', { origin }),
        await caller.post(MESSAGES, '{', { origin }),
      ]
      for (const answer of answers) {
        assert.equal(answer.headers.get('access-control-allow-credentials'), null)
        for (const name of ['x-request-id', 'x-cache', 'retry-after', 'ratelimit-remaining', 'location']) {
          assert.equal(parts(answer, 'access-control-expose-headers').includes(name), isAllowed, name)
        }
        assert.match(answer.headers.get('vary') ?? '', /^Origin\b/)
      }
      for (const { headers } of [preflight, ...answers]) {
        assert.equal(headers.get('access-control-allow-origin'), isAllowed ? origin : null)
      }
    }
    const origin = { origin: `${origins[0]}` }
    const document = await parley.get('/openapi.json', undefined, origin)
    assert.equal(document.headers.get('vary'), 'Origin, accept-encoding')
    // A preflight request for an unknown path succeeds, so that the page can read the 404 that follows. Other OPTIONS requests
    // are handled by their route.
    assert.equal((await send('OPTIONS', '/api/v1/none', { ...origin, ...PREFLIGHT })).status, 204)
    const plain = await send('OPTIONS', MESSAGES, origin)
    assert.deepEqual([plain.status, plain.text], [204, ''])
    assert.match(plain.headers.get('allow') ?? '', /POST/)
  })

  test('CORS: "*" is for pages of any origin', async (t) => {
    const { parley } = await startScene(t, { settings: { cors: { origins: ['*'] } } })
    const answer = await parley.get('/healthz', undefined, { origin: 'https://any.example' })
    assert.equal(answer.headers.get('access-control-allow-origin'), '*')
  })

  test('trust_proxy: the caller’s own address is known behind a trusted proxy, and behind no other', async (t) => {
    const forwarded = {
      'x-forwarded-for': '203.0.113.7',
      'x-forwarded-proto': 'https',
      'x-forwarded-host': 'a',
    }
    for (const [trusted, from] of [
      [true, '203.0.113.7'],
      ['127.0.0.1', '203.0.113.7'],
      ['10.0.0.0/8, 127.0.0.0/8', '203.0.113.7'],
      ['10.0.0.0/8', '127.0.0.1'],
      [false, '127.0.0.1'],
    ] as const) {
      const { parley, caller } = await startScene(t, { settings: { trust_proxy: trusted } })
      granted(await parley.get(ME, caller.key, forwarded), 200)
      await parley.stop()
      assert.equal(parley.log.find(({ route }) => route === ME)?.from, from)
    }
  })
})

/** Returns the names of the headers that the operations of an OpenAPI document read. */
function headersIn({ paths }: Answer['body']): string[] {
  const operations = Object.values<object>(paths).flatMap((path) => Object.values(path))
  const parameters = operations.flatMap(({ parameters = [] }) => parameters)
  return parameters.filter((one) => one.in === 'header').map(({ name }) => String(name).toLowerCase())
}
