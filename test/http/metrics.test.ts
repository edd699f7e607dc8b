/** Tests what `/metrics` reports about the node, and what it still reports while the database does not answer. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import test from 'node:test'
import { StoreUnavailable } from '../../src/store/store.ts'
import { TIMEOUT_MS } from '../../src/telemetry/gauges.ts'
import { VERSION } from '../../src/version.ts'
import { onEachStore } from '../on-each-store.ts'
import { ADMIN_TOKEN, type LogLine, type Parley } from '../parley.ts'
import { granted } from './expect.ts'
import { startStage } from './stage.ts'

/** Metrics whose values come from the database. */
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
  const lines = answer.text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return new Map(lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.split(' ').at(-1))]))
}

function linesAboutThreads({ log }: Parley): LogLine[] {
  return log.filter((line) => line.message.includes('threads'))
}

const hasPromtool = spawnSync('promtool', ['--version']).status === 0

onEachStore(() => {
  test('/metrics: what runs here, whether it is ready, how much room it has, and the counts of rare events', async (t) => {
    const { parley } = await startStage(t, {
      settings: { jobs: { concurrency: 7 }, sync: { max_waiters: 9 } },
    })
    const found = await samples(parley)
    const store = parley.store.shared ? 'postgres' : 'sqlite'
    const expected = {
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
    }
    assert.deepEqual(
      Object.fromEntries(Object.keys(expected).map((name) => [name, found.get(name)])),
      expected,
    )
    const limit = found.get('parley_heap_limit_bytes') ?? 0
    assert.ok(limit > (found.get('nodejs_heap_size_used_bytes') ?? limit))
    const [free, size] = [found.get('parley_disk_free_bytes'), found.get('parley_disk_size_bytes')]
    if (parley.store.shared) assert.deepEqual([free, size], [undefined, undefined])
    else assert.ok(free !== undefined && size !== undefined && free > 0 && free <= size)
  })

  test('a node that only serves HTTP reports nothing about model servers, which it never calls', async (t) => {
    const { parley } = await startStage(t, { role: 'api' })
    const found = await samples(parley)
    // This node must not report on model servers: an alert fires if a model server is unavailable on all nodes that report on
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
    const { store } = parley
    const before = { ping: store.ping, depth: store.depth, callbackDepth: store.callbackDepth }
    const refuse = () => Promise.reject(new StoreUnavailable('it is gone'))
    Object.assign(store, { ping: refuse, depth: refuse, callbackDepth: refuse })
    const without = await samples(parley)
    assert.equal(without.get('parley_ready'), 0)
    assert.equal(without.get('parley_waiters'), 0)
    for (const name of OF_THE_DATABASE) assert.equal(without.has(name), false, name)
    Object.assign(store, before)
    const back = await samples(parley)
    assert.equal(back.get('parley_ready'), 1)
    for (const name of OF_THE_DATABASE) assert.equal(back.get(name), 0, name)
  })

  test('/metrics: a database that hangs holds a scrape up for no longer than its limit', async (t) => {
    const { parley, clock } = await startStage(t)
    const hang = Promise.withResolvers<never>()
    parley.store.depth = () => hang.promise
    const scrape = samples(parley)
    await clock.timerSet((ms) => ms === TIMEOUT_MS)
    clock.advance(TIMEOUT_MS)
    const found = await scrape
    assert.equal(found.has('parley_queue_jobs'), false)
    assert.equal(found.get('parley_jobs_running'), 0)
    hang.reject(new StoreUnavailable('it is gone'))
  })
})
