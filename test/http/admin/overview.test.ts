/** Tests the admin API's overview and settings. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import test from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { StoreUnavailable } from '../../../src/store/store.ts'
import { VERSION } from '../../../src/version.ts'
import { reply, startModelServer } from '../../model-server.ts'
import { onEachStore } from '../../on-each-store.ts'
import { startParley } from '../../parley.ts'
import { eventually } from '../../support/eventually.ts'
import { callerOf, says } from '../caller.ts'
import { granted, refused } from '../expect.ts'
import { adminOf, startAdminScene } from './admin.ts'

const POINT_MS = 2000

onEachStore(() => {
  test('the overview shows running and queued jobs, and the samples so far', async (t) => {
    const settings = { jobs: { concurrency: 1 } }
    const { caller, admin, clock, models } = await startAdminScene(t, { settings })
    const startedAt = clock.nowMs() / 1000
    await caller.create()
    models.script = () => reply.stall()
    await caller.enqueue([1, 2, 3].map((n) => says(`stalls ${n}`)))
    await models.received(2)
    clock.advance(POINT_MS)
    const { points, node, upstreams, threads, ...data } = await admin.read('/overview')
    assert.deepEqual(data, {
      now: startedAt + 2,
      version: VERSION,
      role: 'all',
      simulated: false,
      started_at: startedAt,
      jobs: {
        waiting: 2,
        assigned: 1,
        oldest_age_seconds: 2,
        running: 1,
        waiters: 0,
        suspects: { queued: 0, running: 0 },
      },
      callbacks: { owed: 0, failed: 0, late_seconds: 0, under_way: { first: 0, retry: 0 } },
      held_back: [],
    })
    assert.match(node, /^[0-9a-f]{16}$/)
    const [{ connections, busy }, ...otherThreads] = threads
    assert.deepEqual(otherThreads, [])
    assert.ok(Number.isInteger(connections) && connections > 0, `${connections} connections`)
    assert.ok(busy >= 0 && busy <= 1, `busy is ${busy}`)
    const load = { running: 1, waiting: 0, concurrency_limit: 256, max_concurrency: 256 }
    const health = { skipped_until: null, rejected_roles: [], unavailable: [], limited_accounts: 0 }
    const upstream = { name: 'openai', ...load, ...health }
    assert.deepEqual(upstreams, [upstream])
    const [point, ...others] = points
    assert.deepEqual(others, [])
    assert.deepEqual([point.at, point.seconds, point.running], [startedAt + 2, 2, 1])
    assert.deepEqual([point.jobs, point.cache_hits], [{ completed: 1 }, 0])
    assert.deepEqual(point.calls, { openai: { ok: 1, trouble: 0 } })
    assert.ok(point.tokens['gpt-5-mini'].input > 0)
    assert.deepEqual(point.callbacks, { delivered: 0, failed_attempts: 0, failed: 0 })
  })

  test('the overview shows the accounts that this node holds back, with the reason', async (t) => {
    const settings = { jobs: { concurrency: 4 }, limits: { memory_bytes: 16 * 1024 * 1024 } }
    const script = () => reply.stall(reply.text('done'))
    const options = { settings, script, account: 'large' }
    const { parley, caller: large, admin, models } = await startAdminScene(t, options)
    const many = await callerOf(parley, 'user_max', 'many')
    const heldBack = async () => (await admin.read('/overview')).held_back
    const isHeldBack = (expected: readonly object[]) =>
      eventually(heldBack, (now) => isDeepStrictEqual(now, expected), { withinMs: 20_000 })
    for (const n of [1, 2]) await large.enqueue([says(`${n} ${'large '.repeat(50_000)}`)])
    await isHeldBack([{ account: 'large', reason: 'memory' }])
    await many.enqueue([1, 2, 3, 4, 5].map((n) => says(`small ${n}`)))
    await isHeldBack([
      { account: 'large', reason: 'memory' },
      { account: 'many', reason: 'slots' },
    ])
    models.script = () => undefined
    models.release()
    await isHeldBack([])
  })

  test('503 and 500 have the standard shape', async (t) => {
    const { parley, admin } = await startAdminScene(t)
    for (const [status, error] of [
      [500, new Error('a bug')],
      [503, new StoreUnavailable('the disk is full')],
    ] as const) {
      const refuse = () => Promise.reject(error)
      const operations = ['depth', 'searchJobs', 'listAccounts', 'searchKeys', 'searchCallbacks']
      for (const name of operations) Object.assign(parley.store, { [name]: refuse })
      for (const path of ['/overview', '/jobs', '/accounts', '/keys', '/callbacks']) {
        refused(await admin.get(path), status)
      }
    }
  })

  test('the settings in force are shown without any secret', async (t) => {
    const models = await startModelServer({}, t)
    const own = new URL(models.baseUrl)
    own.searchParams.set('api-key', 'CANARYquery')
    own.searchParams.set('api-version', '2026-01-01')
    const settings = {
      jobs: { concurrency: 7 },
      upstreams: { openai: { base_url: own.href, headers: { 'x-any': 'CANARYheader' } } },
    }
    const parley = await startParley(t, { settings, upstreamKey: 'CANARYkey' })
    const admin = await adminOf(parley)
    const answer = await admin.get('/settings')
    const { settings: shown, file, database } = granted(answer, 200)
    assert.equal(shown.jobs.concurrency, 7)
    assert.equal(shown.jobs.max_attempts, 3, 'defaults too')
    assert.equal(shown.upstreams.openai.api_key_env, 'OPENAI_API_KEY')
    assert.match(
      shown.upstreams.openai.base_url,
      /^http:\/\/127\.0\.0\.1:\d+\/v1\?api-key=\*\*\*&api-version=2026-01-01$/,
    )
    assert.deepEqual(shown.upstreams.openai.headers, { 'x-any': '***' })
    assert.equal(file, join(parley.folder, 'config.json'))
    assert.equal(database, shown.database)
    assert.ok(!answer.text.includes('CANARY'), answer.text)
  })
})
