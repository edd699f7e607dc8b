/** Tests the routes for operators, the route by which callers check their limits, and what applies to every response. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test from 'node:test'
import { DEFAULTS } from '../../src/config/settings.ts'
import { StoreUnavailable } from '../../src/store/store.ts'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { type Answer, job, type Parley, startParley } from '../parley.ts'
import { completed, enqueued, failed, granted, refused } from './expect.ts'
import { talk } from './raw-http.ts'
import { startStage } from './stage.ts'

const MESSAGES = '/api/v1/messages'
const BATCHES = '/api/v1/messages/batches'

onEachStore(() => {
  test('/api/v1/me: the tier, its models and limits, what is left of the reads, and the retention', async (t) => {
    const { parley, clock } = await startStage(t, {
      settings: { tiers: { user_free: { reads_per_minute: 5 } } },
    })
    const key = await parley.key('user_free', 'somebody')
    const keyId = (await parley.store.listKeys())[0]?.id
    const expected = {
      account: 'somebody',
      key_id: keyId,
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
    assert.deepEqual(granted(await parley.get('/api/v1/me', key), 200), expected)
    for (let read = 0; read < 7; read++) await parley.get(`${MESSAGES}/${randomUUID()}`, key)
    clock.advance(15_500)
    const later = granted(await parley.get('/api/v1/me', key), 200)
    assert.deepEqual(later.reads, { remaining: 0, resets_in_seconds: 45 })
  })

  test('/api/v1/me: the limits of each tier by default', async (t) => {
    const parley = await startParley(t)
    const limits = []
    for (const tier of Object.keys(DEFAULTS.tiers) as (keyof typeof DEFAULTS.tiers)[]) {
      const data = granted(await parley.get('/api/v1/me', await parley.key(tier)), 200)
      limits.push([
        data.tier,
        data.limits.max_batch_jobs,
        data.limits.reads_per_minute,
        data.limits.max_input_tokens,
      ])
    }
    assert.deepEqual(limits, [
      ['user_free', 2, 300, 16_000],
      ['user_go', 10, 600, 64_000],
      ['user_pro', 20, 1200, 128_000],
      ['user_max', 30, 3000, 256_000],
    ])
  })

  test('/healthz and /readyz', async (t) => {
    const { parley } = await startStage(t)
    assert.deepEqual(granted(await parley.get('/healthz'), 200), { status: 'alive' })
    assert.deepEqual(granted(await parley.get('/readyz'), 200), { status: 'ready' })
    parley.store.ping = () => Promise.reject(new StoreUnavailable('the disk is full'))
    const answer = await parley.get('/readyz')
    refused(answer, 503)
    assert.equal(answer.headers.get('retry-after'), '1')
    granted(await parley.get('/healthz'), 200)
  })

  /** Returns the samples of /metrics: the value by name with labels. */
  async function samples(parley: Parley): Promise<Map<string, number>> {
    const answer = await parley.get('/metrics')
    assert.equal(answer.status, 200)
    assert.match(answer.headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/)
    const lines = answer.text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
    return new Map(
      lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.split(' ').at(-1))]),
    )
  }

  test('/metrics: names and values after some jobs', async (t) => {
    const { parley, models } = await startStage(t)
    models.script = ({ text }) => (text.includes('bad') ? reply.status(400) : undefined)
    const key = await parley.key()
    const messages = [{ role: 'user', content: 'bad' }]
    completed(await parley.post(MESSAGES, job(), key))
    completed(await parley.post(MESSAGES, job(), key))
    completed(await parley.post(MESSAGES, job({ model: 'gpt-5' }), key))
    failed(await parley.post(MESSAGES, job({ messages }), key))
    refused(await parley.get(`${MESSAGES}/${randomUUID()}`, key), 404)
    refused(await parley.get('/unknown/route'), 404)
    refused(await parley.get('/%zz'), 404)
    const found = await samples(parley)
    const expected = {
      'parley_jobs_total{model="gpt-5-mini",outcome="completed"}': 2,
      'parley_jobs_total{model="gpt-5",outcome="completed"}': 1,
      'parley_jobs_total{model="gpt-5-mini",outcome="model_error"}': 1,
      'parley_cache_hits_total{model="gpt-5-mini"}': 1,
      'parley_upstream_calls_total{upstream="openai",model="gpt-5-mini",result="answer"}': 1,
      'parley_upstream_calls_total{upstream="openai",model="gpt-5-mini",result="trouble 400"}': 1,
      'parley_tokens_total{model="gpt-5-mini",direction="input"}': 5,
      'parley_tokens_total{model="gpt-5-mini",direction="output"}': 11,
      'parley_http_requests_total{method="POST",route="/api/v1/messages",status="200"}': 4,
      'parley_http_requests_total{method="GET",route="/api/v1/messages/:jobId",status="404"}': 1,
      'parley_http_requests_total{method="GET",route="none",status="404"}': 2,
      'parley_http_request_seconds_count{route="/api/v1/messages"}': 4,
      'parley_job_run_seconds_count{model="gpt-5-mini"}': 3,
      parley_job_wait_seconds_count: 4,
      parley_queue_jobs: 0,
      parley_queue_oldest_age_seconds: 0,
      parley_jobs_assigned: 0,
      parley_jobs_running: 0,
      parley_waiters: 0,
      'parley_upstream_calls{upstream="openai",state="running"}': 0,
      'parley_upstream_calls{upstream="openai",state="places"}': 256,
      'parley_upstream_skipped{upstream="openai"}': 0,
    }
    assert.deepEqual(
      Object.fromEntries(Object.keys(expected).map((name) => [name, found.get(name)])),
      expected,
    )
    for (const name of [
      'parley_commit_seconds_count',
      'parley_commit_group_size_count',
      'process_cpu_seconds_total',
    ]) {
      assert.ok((found.get(name) ?? 0) > 0, name)
    }
  })

  test('a request whose client has gone, such as a proxy that gave up, is logged and counted as 499', async (t) => {
    const { parley, models } = await startStage(t, { script: () => reply.stall() })
    const key = await parley.key()
    const [id] = enqueued(await parley.post(BATCHES, [job()], key), 1)
    await models.received(1)
    const content = (text: string) => JSON.stringify(job({ messages: [{ role: 'user', content: text }] }))
    const chat = JSON.stringify({ model: 'gpt-5-mini', messages: [{ role: 'user', content: 'c' }] })
    for (const [method, path, route, body] of [
      ['POST', MESSAGES, MESSAGES, content('a')],
      ['GET', `${MESSAGES}/${id}?wait=60`, `${MESSAGES}/:jobId`],
      ['POST', '/v1/chat/completions', '/v1/chat/completions', chat],
    ] as const) {
      const leaving = new AbortController()
      const headers = { 'x-api-key': key, authorization: `Bearer ${key}`, 'content-type': 'application/json' }
      const { signal } = leaving
      const asked = parley.request(path, { method, headers, signal, ...(body && { body }) })
      while ((await samples(parley)).get('parley_waiters') !== 1) t.signal.throwIfAborted()
      leaving.abort()
      await assert.rejects(asked)
      const name = `parley_http_requests_total{method="${method}",route="${route}",status="499"}`
      while ((await samples(parley)).get(name) !== 1) t.signal.throwIfAborted()
      const line = parley.log.findLast((one) => one.message === 'request completed' && one.route === route)
      assert.deepEqual([line?.status, line?.account], [499, 'user_max'])
    }
  })

  test('/metrics: queued and running jobs', async (t) => {
    const { parley, models, clock } = await startStage(t, {
      settings: { jobs: { concurrency: 2 } },
      script: () => reply.stall(),
    })
    const key = await parley.key()
    enqueued(await parley.post(BATCHES, [job(), job(), job(), job(), job()], key), 5)
    await models.received(2)
    clock.advance(7000)
    const found = await samples(parley)
    assert.equal(found.get('parley_queue_jobs'), 3)
    assert.equal(found.get('parley_queue_oldest_age_seconds'), 7)
    assert.equal(found.get('parley_jobs_assigned'), 2)
    assert.equal(found.get('parley_jobs_running'), 2)
    assert.equal(found.get('parley_accounts_held_back{reason="slots"}'), 0)
    assert.equal(found.get('parley_accounts_held_back{reason="memory"}'), 0)
    assert.equal(found.get('parley_upstream_calls{upstream="openai",state="running"}'), 2)
  })

  test('every answer carries x-request-id, and so does its log line', async (t) => {
    const { parley } = await startStage(t, { settings: { limits: { body_bytes: 1024 } } })
    const key = await parley.key()
    const answers: Answer[] = [
      await parley.post(MESSAGES, job(), key),
      await parley.post(BATCHES, [job()], key),
      await parley.get('/api/v1/me', key),
      await parley.get('/healthz'),
      await parley.get('/metrics'),
      await parley.get('/openapi.json'),
      await parley.get('/docs/'),
      await parley.post(MESSAGES, '{', key),
      await parley.get('/api/v1/me'),
      await parley.post(MESSAGES, job({ model: 'gpt-5' }), await parley.key('user_free')),
      await parley.get(`${MESSAGES}/${randomUUID()}`, key),
      await parley.get('/unknown'),
      await parley.get('/%zz'),
      await parley.get(`${MESSAGES}/%zz`, key),
      await parley.get(`${MESSAGES}/${'x'.repeat(9000)}`, key),
      await parley.post(MESSAGES, 'x'.repeat(2000), key),
      await parley.post(MESSAGES, '{}', key, { 'content-type': 'text/plain' }),
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
    const { parley } = await startStage(t)
    const key = await parley.key('user_max', 'somebody')
    const answer = await parley.post(`${BATCHES}?secret=1`, [job(), job()], key, {
      'x-request-id': 'batch-1',
    })
    const ids = enqueued(answer, 2)
    await parley.get(`${MESSAGES}/${ids[0]}?secret=1`, key, { 'x-request-id': 'read-1' })
    await parley.stop()
    const lines = ['batch-1', 'read-1'].map((id) => parley.log.find(({ request_id }) => request_id === id))
    const common = { account: 'somebody', from: '127.0.0.1', level: 'info', message: 'request completed' }
    assert.deepEqual(lines, [
      {
        ...common,
        ms: lines[0]?.ms,
        request_id: 'batch-1',
        method: 'POST',
        route: BATCHES,
        status: 202,
        job_ids: ids,
      },
      {
        ...common,
        ms: lines[1]?.ms,
        request_id: 'read-1',
        method: 'GET',
        route: `${MESSAGES}/:jobId`,
        status: 200,
        job_ids: [ids[0]],
      },
    ])
  })

  test('x-request-id is the caller’s own where it is fit for a header and a log', async (t) => {
    const { parley } = await startStage(t)
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

  const PREFLIGHT = {
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'x-api-key,content-type,idempotency-key',
  }

  test('CORS is off by default: no header says otherwise, and a preflight only learns the methods', async (t) => {
    const { parley } = await startStage(t)
    const origin = 'https://app.example'
    const answer = await parley.get('/api/v1/me', await parley.key(), { origin })
    granted(answer, 200)
    for (const [name] of answer.headers) assert.doesNotMatch(name, /^access-control-/)
    const preflight = await parley.request(MESSAGES, { method: 'OPTIONS', headers: { origin, ...PREFLIGHT } })
    assert.equal(preflight.status, 204)
    assert.match(preflight.headers.get('allow') ?? '', /POST/)
    for (const [name] of preflight.headers) assert.doesNotMatch(name, /^access-control-/)
  })

  test('CORS: pages of the named origins may call, and no others', async (t) => {
    const origins = ['https://app.example', 'https://other.example']
    const { parley } = await startStage(t, { settings: { cors: { origins } } })
    const key = await parley.key()
    for (const origin of [...origins, 'https://evil.example', 'https://app.example.evil.example', 'null']) {
      const allowed = origins.includes(origin) ? origin : null
      const preflight = await parley.request(MESSAGES, {
        method: 'OPTIONS',
        headers: { origin, ...PREFLIGHT },
      })
      assert.equal(preflight.headers.get('access-control-allow-origin'), allowed)
      if (allowed !== null) {
        assert.equal(preflight.status, 204)
        const methods = preflight.headers.get('access-control-allow-methods')?.split(', ')
        assert.deepEqual(methods, ['GET', 'POST', 'DELETE'])
        const headers = preflight.headers.get('access-control-allow-headers')?.split(', ') ?? []
        for (const name of ['x-api-key', 'content-type', 'idempotency-key', 'traceparent', 'user-agent'])
          assert.ok(headers.includes(name), name)
      } else assert.equal(preflight.headers.get('access-control-allow-methods'), null)
      // The response depends on the origin, so a cache must not serve it for another origin.
      assert.equal(preflight.headers.get('vary'), 'Origin')
      // Pages must be able to read error responses, too.
      for (const answer of [
        await parley.get('/api/v1/me', key, { origin }),
        await parley.get('/api/v1/me', undefined, { origin }),
        await parley.get(`${MESSAGES}/${randomUUID()}`, key, { origin }),
        await parley.get('/api/v1/none', key, { origin }),
        await parley.get(`${MESSAGES}/%zz`, key, { origin }),
        await parley.request(MESSAGES, { method: 'PUT', headers: { origin } }),
        await parley.request('/none', { method: 'OPTIONS', headers: { origin } }),
        await parley.post(MESSAGES, '{', key, { origin }),
      ]) {
        assert.equal(answer.headers.get('access-control-allow-origin'), allowed)
        assert.equal(answer.headers.get('access-control-allow-credentials'), null)
        const exposed = answer.headers.get('access-control-expose-headers') ?? ''
        for (const name of ['x-request-id', 'x-cache', 'retry-after', 'ratelimit-remaining', 'location']) {
          assert.equal(exposed.includes(name), allowed !== null, name)
        }
        assert.match(answer.headers.get('vary') ?? '', /^Origin\b/)
      }
    }
    const document = await parley.get('/openapi.json', undefined, { origin: `${origins[0]}` })
    assert.equal(document.headers.get('vary'), 'Origin, accept-encoding')
    // A preflight request for an unknown path succeeds, so that the page can read the 404 that follows. Other OPTIONS requests
    // are handled by their route.
    const headers = { origin: `${origins[0]}`, ...PREFLIGHT }
    assert.equal((await parley.request('/api/v1/none', { method: 'OPTIONS', headers })).status, 204)
    const plain = await parley.request(MESSAGES, { method: 'OPTIONS', headers: { origin: `${origins[0]}` } })
    assert.deepEqual([plain.status, plain.text], [204, ''])
    assert.match(plain.headers.get('allow') ?? '', /POST/)
  })

  test('CORS: "*" is for pages of any origin', async (t) => {
    const { parley } = await startStage(t, { settings: { cors: { origins: ['*'] } } })
    const answer = await parley.get('/healthz', undefined, { origin: 'https://any.example' })
    assert.equal(answer.headers.get('access-control-allow-origin'), '*')
  })

  test('trust_proxy: the caller’s own address is known behind a trusted proxy, and behind no other', async (t) => {
    const expected = [
      [true, '203.0.113.7'],
      ['127.0.0.1', '203.0.113.7'],
      ['10.0.0.0/8, 127.0.0.0/8', '203.0.113.7'],
      ['10.0.0.0/8', '127.0.0.1'],
      [false, '127.0.0.1'],
    ] as const
    for (const [trusted, from] of expected) {
      const { parley } = await startStage(t, { settings: { trust_proxy: trusted } })
      const forwarded = {
        'x-forwarded-for': '203.0.113.7',
        'x-forwarded-proto': 'https',
        'x-forwarded-host': 'a',
      }
      granted(await parley.get('/api/v1/me', await parley.key(), forwarded), 200)
      await parley.stop()
      assert.deepEqual([parley.log.find(({ route }) => route === '/api/v1/me')?.from], [from])
    }
  })
})
