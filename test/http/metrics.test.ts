/**
 * Tests what `/metrics` reports about jobs and the node, even while the database does not respond, and what autoscalers of
 * model servers use: `GET /metrics/queue` and the metrics by route.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import test from 'node:test'
import { StoreUnavailable } from '../../src/store/store.ts'
import { TIMEOUT_MS } from '../../src/telemetry/gauges.ts'
import { VERSION } from '../../src/version.ts'
import { isModelList, reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { ADMIN_TOKEN, job, type LogLine, type Parley } from '../parley.ts'
import { metric, numbered, ONE_SLOT } from '../support/outage.ts'
import { MESSAGES, says, startScene } from './caller.ts'
import { completed, failed, granted, refused } from './expect.ts'
import { type StageOptions, startStage } from './stage.ts'

const OF_THE_DATABASE = [
  'parley_queue_jobs',
  'parley_queue_oldest_age_seconds',
  'parley_jobs_assigned',
  'parley_callbacks_owed',
  'parley_callbacks_failed',
  'parley_callbacks_late_seconds',
]

async function samples({ get }: Parley): Promise<Map<string, number>> {
  const answer = await get('/metrics')
  assert.equal(answer.status, 200)
  assert.match(answer.headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/)
  const lines = answer.text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return new Map(lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.split(' ').at(-1))]))
}

function has(
  found: ReadonlyMap<string, number>,
  expected: Readonly<Record<string, number | undefined>>,
): void {
  const own = Object.fromEntries(Object.keys(expected).map((name) => [name, found.get(name)]))
  assert.deepEqual(own, expected)
}

function linesAboutThreads({ log }: Parley): LogLine[] {
  return log.filter((line) => line.message.includes('threads'))
}

const hasPromtool = spawnSync('promtool', ['--version']).status === 0

const ROUTE = 'route="openai/gpt-5-mini"'

const STALLING: StageOptions = {
  settings: ONE_SLOT,
  findsConcurrency: true,
  script: (request) => (isModelList(request) ? undefined : reply.stall()),
}

async function stateOf(parley: Parley) {
  return granted(await parley.get('/metrics/queue'), 200)
}

/** Resolves when `count` jobs are queued or wait for a slot, and at least one waits for a slot. */
async function whenKnown(t: { signal: AbortSignal }, parley: Parley, count: number) {
  for (;;) {
    const state = await stateOf(parley)
    if (state.waiting > 0 && state.queued + state.waiting === count) return state
    t.signal.throwIfAborted()
  }
}

onEachStore(() => {
  test('/metrics: what runs here, whether it is ready, how much room it has, and the counts of rare events', async (t) => {
    const settings = { jobs: { concurrency: 7 }, sync: { max_waiters: 9 } }
    const { parley } = await startStage(t, { settings })
    const found = await samples(parley)
    const store = parley.store.shared ? 'postgres' : 'sqlite'
    has(found, {
      [`parley_info{version="${VERSION}",role="all",store="${store}"}`]: 1,
      parley_ready: 1,
      parley_job_places: 7,
      parley_waiter_places: 9,
      parley_jobs_reclaimed_total: 0,
      parley_leases_lost_total: 0,
      parley_crashes_reverted_total: 0,
      'parley_callbacks_total{outcome="failed"}': 0,
      'parley_jobs_total{model="gpt-5",outcome="model_error"}': 0,
      'parley_jobs_total{model="gpt-5",outcome="completed"}': 0,
    })
    const limit = found.get('parley_heap_limit_bytes') ?? 0
    assert.ok(limit > (found.get('nodejs_heap_size_used_bytes') ?? limit))
    const [free, size] = [found.get('parley_disk_free_bytes'), found.get('parley_disk_size_bytes')]
    if (parley.store.shared) assert.deepEqual([free, size], [undefined, undefined])
    else assert.ok(free !== undefined && size !== undefined && free > 0 && free <= size)
  })

  test('/metrics: names and values after some jobs', async (t) => {
    const { parley, caller } = await startScene(t, {
      script: ({ text }) => (text.includes('bad') ? reply.status(400) : undefined),
    })
    for (const over of [{}, {}, { model: 'gpt-5' }]) completed(await caller.create(over))
    failed(await caller.ask('bad'))
    refused(await caller.read(randomUUID()), 404)
    for (const path of ['/unknown/route', '/%zz']) refused(await parley.get(path), 404)
    const found = await samples(parley)
    has(found, {
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
    })
    for (const name of [
      'parley_commit_seconds_count',
      'parley_commit_group_size_count',
      'process_cpu_seconds_total',
    ])
      assert.ok((found.get(name) ?? 0) > 0, name)
  })

  test('a request whose client has gone, such as a proxy that gave up, is logged and counted as 499', async (t) => {
    const { parley, caller, models } = await startScene(t, { script: () => reply.stall() })
    const id = await caller.enqueueOne()
    await models.received(1)
    const messages = [{ role: 'user', content: 'a' }]
    for (const [method, path, route, body] of [
      ['POST', MESSAGES, MESSAGES, job({ messages })],
      ['GET', `${MESSAGES}/${id}?wait=60`, `${MESSAGES}/:jobId`],
      ['POST', '/v1/chat/completions', '/v1/chat/completions', { model: 'gpt-5-mini', messages }],
    ] as const) {
      const leaving = new AbortController()
      const { key } = caller
      const headers = { 'x-api-key': key, authorization: `Bearer ${key}`, 'content-type': 'application/json' }
      const { signal } = leaving
      const init = { method, headers, signal, ...(body && { body: JSON.stringify(body) }) }
      const asked = parley.request(path, init)
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
    const { parley, caller, models, clock } = await startScene(t, {
      settings: { jobs: { concurrency: 2 } },
      script: () => reply.stall(),
    })
    await caller.enqueue(Array(5).fill(job()))
    await models.received(2)
    clock.advance(7000)
    has(await samples(parley), {
      parley_queue_jobs: 3,
      parley_queue_oldest_age_seconds: 7,
      parley_jobs_assigned: 2,
      parley_jobs_running: 2,
      'parley_accounts_held_back{reason="slots"}': 0,
      'parley_accounts_held_back{reason="memory"}': 0,
      'parley_upstream_calls{upstream="openai",state="running"}': 2,
    })
  })

  test('a node that only serves HTTP reports nothing about model servers, which it never calls', async (t) => {
    const { parley } = await startStage(t, { role: 'api' })
    const found = await samples(parley)
    // This node must not report on model servers. An alert fires if a model server is unavailable on all nodes that report on
    // it.
    const about = [...found.keys()].filter((name) => name.startsWith('parley_upstream_'))
    assert.deepEqual(about, [])
    const admin = { authorization: `Bearer ${ADMIN_TOKEN}` }
    const { upstreams } = granted(await parley.get('/admin/api/overview', undefined, admin), 200)
    assert.deepEqual(upstreams, [])
  })

  test('promtool accepts the metrics', { skip: hasPromtool ? false : 'promtool is not there' }, async (t) => {
    const { parley } = await startStage(t)
    const { text } = await parley.get('/metrics')
    const { status, stderr } = spawnSync('promtool', ['check', 'metrics'], { input: text, encoding: 'utf8' })
    assert.deepEqual([status, stderr], [0, ''])
  })

  test('the setting threads has no effect, as the log says, and the metrics by thread have one entry', async (t) => {
    const { parley } = await startStage(t, { settings: { threads: 3 } })
    const found = await samples(parley)
    const byThread = [...found.keys()].filter((name) => name.startsWith('parley_thread_'))
    const [connections, busy] = [
      'parley_thread_connections{thread="0"}',
      'parley_thread_busy_ratio{thread="0"}',
    ]
    assert.deepEqual(byThread, [connections, busy])
    assert.ok(Number(found.get(connections)) > 0)
    assert.equal(found.get(connections), found.get('parley_connections'))
    const ratio = found.get(busy) ?? -1
    assert.ok(ratio >= 0 && ratio <= 1, `busy is ${ratio}`)
    const [line, ...others] = linesAboutThreads(parley)
    assert.deepEqual([line?.level, line?.threads, others], ['warn', 3, []])
    assert.match(line?.message ?? '', /has no effect.*run several nodes on one Postgres/)
  })

  for (const threads of [1, 'auto']) {
    test(`the log says nothing about threads: ${threads}, which asks for no more than there is`, async (t) => {
      const { parley } = await startStage(t, { settings: { threads } })
      assert.deepEqual(linesAboutThreads(parley), [])
    })
  }

  test('/metrics: a database that refuses leaves out what only it knows', async (t) => {
    const { parley } = await startStage(t)
    const operations = ['ping', 'depth', 'callbackDepth'] as const
    const refuse = () => Promise.reject(new StoreUnavailable('it is gone'))
    const broken = operations.map((name) => t.mock.method(parley.store, name, refuse))
    const gone = Object.fromEntries(OF_THE_DATABASE.map((name) => [name, undefined]))
    has(await samples(parley), { parley_ready: 0, parley_waiters: 0, ...gone })
    for (const { mock } of broken) mock.restore()
    const back = Object.fromEntries(OF_THE_DATABASE.map((name) => [name, 0]))
    has(await samples(parley), { parley_ready: 1, ...back })
  })

  test('/metrics: a database that hangs holds a scrape up for no longer than its limit', async (t) => {
    const { parley, clock } = await startStage(t)
    const hang = Promise.withResolvers<never>()
    parley.store.depth = () => hang.promise
    const scrape = samples(parley)
    await clock.timerSet((ms) => ms === TIMEOUT_MS)
    clock.advance(TIMEOUT_MS)
    has(await scrape, { parley_queue_jobs: undefined, parley_jobs_running: 0 })
    hang.reject(new StoreUnavailable('it is gone'))
  })

  test('jobs that are queued, and those that wait for a slot, count by route and by upstream', async (t) => {
    const { parley, caller, models, clock } = await startScene(t, STALLING)
    assert.deepEqual((await stateOf(parley)).upstreams, {
      openai: { queued: 0, waiting: 0, oldest_age_seconds: 0 },
    })
    await caller.enqueueOne()
    await models.received(1)
    clock.advance(10_000)
    await caller.enqueue(numbered(30))
    clock.advance(5_000)
    // Parley claims one job more than it has slots. That job is on its way to the model server for a moment, and is not counted
    // then.
    const state = await whenKnown(t, parley, 30)
    const { queued, waiting, oldest_age_seconds: age } = state.upstreams.openai
    assert.deepEqual([queued + waiting, waiting, age], [30, 1, 5])
    const route = state.routes.find(
      ({ targets }: { targets: string[] }) => targets[0] === 'openai/gpt-5-mini',
    )
    assert.deepEqual(route, { targets: ['openai/gpt-5-mini'], queued: 29, waiting: 1, oldest_age_seconds: 5 })
    assert.equal(await metric(parley, `parley_route_queue_jobs{${ROUTE}}`), 29)
    assert.equal(await metric(parley, `parley_route_waiting_jobs{${ROUTE}}`), 1)
    assert.equal(await metric(parley, `parley_route_oldest_age_seconds{${ROUTE}}`), 5)
    models.script = () => undefined
    models.release()
    while ((await stateOf(parley)).queued > 0) t.signal.throwIfAborted()
    assert.equal(await metric(parley, `parley_route_queue_jobs{${ROUTE}}`), 0)
  })

  test('jobs of each priority and model are in the figures of their route', async (t) => {
    const { parley, caller, models } = await startScene(t, STALLING)
    await caller.enqueueOne()
    await models.received(1)
    for (const over of [{ priority: 'low' }, { model: 'gpt-5' }]) {
      await caller.enqueue(Array.from({ length: 5 }, (_, n) => says(`${n}`, over)))
    }
    const state = await whenKnown(t, parley, 10)
    const { routes } = state
    const five = routes.filter((one: { queued: number; waiting: number }) => one.queued + one.waiting === 5)
    assert.deepEqual(five.map(({ targets }: { targets: string[] }) => targets).sort(), [
      ['openai/gpt-5'],
      ['openai/gpt-5-mini'],
    ])
  })
})
