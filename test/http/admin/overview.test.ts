/** Tests the admin API's overview and settings, and its route that sends metric samples as server-sent events. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import test, { type TestContext } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { VERSION } from '../../../src/version.ts'
import type { FakeClock } from '../../fake-clock.ts'
import { reply, startModelServer } from '../../model-server.ts'
import { onEachStore } from '../../on-each-store.ts'
import { ADMIN_TOKEN, type Parley, startParley, temporaryFolder } from '../../parley.ts'
import { eventually } from '../../support/eventually.ts'
import { callerOf, says } from '../caller.ts'
import { granted } from '../expect.ts'
import { startStage } from '../stage.ts'
import { adminOf, BASE, startAdminScene } from './admin.ts'

const POINT_MS = 2000

const GREETING = ': points follow\n\n'

interface Listener {
  readonly response: IncomingMessage
  text(): string
  events(count: number): Promise<string>
  ended(): Promise<unknown>
}

async function listen(t: TestContext, parley: Parley, token = ADMIN_TOKEN): Promise<Listener> {
  const { protocol, hostname, port, pathname } = new URL(parley.url)
  const sent = request({
    ...(protocol === 'unix:' ? { socketPath: pathname } : { hostname, port }),
    path: `${BASE}/events`,
    headers: { authorization: `Bearer ${token}` },
    agent: false,
  })
  sent.end()
  t.after(() => sent.destroy())
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  let text = ''
  response.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk
  })
  const ended = once(response, 'end')
  ended.catch(() => {})
  return {
    response,
    text: () => text,
    events: async (count) => {
      while (text.split('event: point\n').length - 1 < count) await once(response, 'data')
      return text
    },
    ended: () => ended,
  }
}

async function makePoint(clock: FakeClock): Promise<void> {
  // The next timer is set only after other work of the event loop has had its turn.
  await setImmediate()
  await setImmediate()
  clock.advance(POINT_MS)
}

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

  test('listeners get each sample when it is taken', async (t) => {
    const { parley, caller, admin, clock } = await startAdminScene(t)
    const listener = await listen(t, parley)
    assert.equal(listener.response.statusCode, 200)
    const { 'content-type': type, 'cache-control': cache, ...headers } = listener.response.headers
    assert.deepEqual([type, cache], ['text/event-stream; charset=utf-8', 'no-store'])
    assert.ok(headers['x-request-id'])
    await caller.create()
    await makePoint(clock)
    await listener.events(1)
    await makePoint(clock)
    const text = await listener.events(2)
    assert.ok(text.startsWith(`${GREETING}event: point\ndata: {"at":`), text)
    const [first, second] = text
      .split('\n')
      .flatMap((line) => (line.startsWith('data: ') ? [JSON.parse(line.slice(6))] : []))
    assert.deepEqual([first.jobs, second.jobs], [{ completed: 1 }, {}])
    assert.deepEqual([second.wait_ms, second.seconds], [{ p50: null, p95: null, p99: null }, 2])
    assert.ok(first.wait_ms.p50 < 1 && first.run_ms.p99 < 1, 'time stands still')
    assert.deepEqual([second.waiting, second.assigned, second.callbacks_owed], [0, 0, 0])
    const { points } = await admin.read('/overview')
    assert.deepEqual(points, [first, second])
  })

  test('a stream ends soon after its token was revoked, and those of others continue', async (t) => {
    const { parley, admin, clock } = await startAdminScene(t)
    const { id, token } = granted(await admin.post('/tokens', { name: 'alice', read_only: true }), 201)
    const [hers, other] = [await listen(t, parley, token), await listen(t, parley)]
    await makePoint(clock)
    await Promise.all([hers.events(1), other.events(1)])
    await admin.run(`/tokens/${id}/revoke`)
    await makePoint(clock)
    await Promise.all([hers.ended(), other.events(2)])
    assert.ok(!other.response.readableEnded)
  })

  test('fifty listeners are sent the same bytes', async (t) => {
    const { parley, clock } = await startStage(t)
    const listeners = await Promise.all(Array.from({ length: 50 }, () => listen(t, parley)))
    for (let points = 1; points <= 3; points++) {
      await makePoint(clock)
      await Promise.all(listeners.map((listener) => listener.events(points)))
    }
    assert.equal(new Set(listeners.map((listener) => listener.text())).size, 1)
  })

  test('a listener that does not read is disconnected', { timeout: 60_000 }, async (t) => {
    // The operating system buffers megabytes of a TCP connection, but little of a Unix socket. So Parley soon notices a client
    // that does not read.
    const path = join(await temporaryFolder(t), 'socket')
    const { parley, clock } = await startStage(t, { settings: { host: `unix:${path}` } })
    const reading = await listen(t, parley)
    const socket = connect(path)
    t.after(() => socket.destroy())
    socket.pause()
    socket.write(`GET ${BASE}/events HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${ADMIN_TOKEN}\r\n\r\n`)
    // The server may end the connection with a reset, which the socket reports as an error.
    socket.on('error', () => {})
    const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
    const gone = () => parley.log.some(({ message }) => /client did not read/.test(message))
    while (!gone()) {
      await makePoint(clock)
      t.signal.throwIfAborted()
    }
    assert.ok(!reading.response.readableEnded, 'who reads stays')
    socket.resume()
    await closed
  })

  test('503 beyond 500 streams of a node', async (t) => {
    const { parley, admin } = await startAdminScene(t)
    const [first] = await Promise.all(Array.from({ length: 500 }, () => listen(t, parley)))
    assert.equal((await listen(t, parley)).response.statusCode, 503)
    const { headers, body } = await admin.get('/events')
    assert.equal(headers.get('retry-after'), '10')
    assert.match(headers.get('content-type') ?? '', /^application\/json/)
    assert.equal(body.message, 'Too many event streams are open on this node.')
    assert.equal(first?.text(), GREETING, 'the others stay')
  })

  test('a stopping server ends them at once, and is not delayed', async (t) => {
    const { parley } = await startStage(t)
    const listeners = await Promise.all(Array.from({ length: 5 }, () => listen(t, parley)))
    await Promise.all([parley.stop(), ...listeners.map((listener) => listener.ended())])
    for (const listener of listeners) assert.equal(listener.text(), GREETING)
  })
})
