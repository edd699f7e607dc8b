/** Tests what callers notice when Postgres restarts, is unreachable, is full or is blocked. Parley itself is not restarted. */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import pg from 'pg'
import { startModelServer } from '../model-server.ts'
import { type Cluster, startCluster } from '../postgres/cluster.ts'
import { freshRealDatabase } from '../postgres/database.ts'
import type { Caller, Reply } from '../process/caller.ts'
import { Random } from '../process/random.ts'
import type { Server } from '../process/server-process.ts'
import { eventually } from '../support/eventually.ts'
import { LONG } from '../support/long-form.ts'
import { startCuttingProxy } from './cutting-proxy.ts'
import { type Fleet, LEASE_S, startFleet } from './fleet.ts'
import { Load, unhurried } from './load.ts'

const RESTARTS = LONG ? 100 : 3
const CUTS = LONG ? 1000 : 10
/** After each restart, the nodes must be available again within this time. */
const BACK_WITHIN_MS = 10_000
const ENDED_WITHIN_MS = 60_000

test(`${RESTARTS} immediate restarts of Postgres under load lose nothing`, async (t) => {
  const models = await startModelServer({ script: unhurried, keep: false }, t)
  const cluster = await startCluster({ settings: { max_connections: 50 } })
  const fleet = await startFleet(t, {
    nodes: 3,
    upstream: models.baseUrl,
    databaseUrl: cluster.url(),
    // On a busy machine, a node may really not reach the database for the usual lease of 3 s, and would then rightly count as
    // crashed.
    jobs: { lease_seconds: Math.max(LEASE_S, 10) },
  })
  t.after(() => cluster.stop())
  const load = new Load(fleet, 4)
  let longestMs = 0
  for (let restart = 0; restart < RESTARTS; restart++) {
    await load.more(20)
    await cluster.restart('immediate')
    const upMs = performance.now()
    await load.more(1)
    longestMs = Math.max(longestMs, performance.now() - upMs)
  }
  const stored = await assertNothingLost(t, fleet, load)
  assert.ok(longestMs < BACK_WITHIN_MS, `once it took ${longestMs} ms until a request was accepted again`)
  for (const { program } of fleet.nodes) {
    assert.doesNotMatch(program.stderr, /rescued the jobs/, 'an outage is not a crash')
  }
  t.diagnostic(
    `${load.ledger.size} accepted, ${stored} stored, ${load.refused} refused with 503, back after ${Math.round(longestMs)} ms at most`,
  )

  await t.test(
    'a Postgres that accepts no more connections gives 503; then everything continues',
    async (t) => {
      const caller = fleet.caller(fleet.nodes[0])
      const others = await takeAllConnections(cluster, fleet.nodes)
      await assertRefused([caller.single('meanwhile')])
      await Promise.all(others.map((client) => client.end()))
      await ready(t, caller)
      assert.equal((await caller.single('after')).status, 200)
    },
  )
})

test(`${CUTS} connections cut before the answer to a statement: nothing is lost, nothing twice`, async (t) => {
  const random = Random.of(t)
  const models = await startModelServer({ script: unhurried, keep: false }, t)
  const proxy = await startCuttingProxy(await freshRealDatabase(t))
  t.after(() => proxy.close())
  const fleet = await startFleet(t, { nodes: 2, upstream: models.baseUrl, databaseUrl: proxy.url })
  const load = new Load(fleet, 4)
  while (proxy.cuts() < CUTS) {
    proxy.cutAtNextAnswer()
    await load.more(1 + random.below(5))
  }
  const stored = await assertNothingLost(t, fleet, load)
  assert.equal(load.refused, 0, 'an outcome that is unknown is found out, not refused')
  t.diagnostic(`${load.ledger.size} accepted, ${stored} stored`)

  await t.test('an unreachable database gives 503 with Retry-After; then everything continues', async (t) => {
    const caller = fleet.caller(fleet.nodes[0])
    const { body } = await caller.single('before')
    proxy.shut()
    await assertRefused([
      caller.single('meanwhile'),
      caller.batch(['one', 'two']),
      caller.read(body.data?.job_id ?? ''),
      caller.send('/readyz'),
    ])
    assert.equal((await caller.send('/healthz')).status, 200)
    proxy.open()
    await ready(t, caller)
    assert.equal((await caller.single('after')).body.data?.status, 'completed')
    assert.equal(await fleet.assertAllSettledOnce(), stored + 2, 'what was refused is not stored')
  })
})

test('blocked tables and a full pool give 503 with Retry-After; then everything continues', async (t) => {
  const models = await startModelServer({}, t)
  const settings = { postgres: { connections: 3, statement_timeout_seconds: 1 } }
  const fleet = await startFleet(t, { nodes: 1, upstream: models.baseUrl, settings })
  const caller = fleet.caller(fleet.nodes[0])
  assert.equal((await caller.single('before')).status, 200)
  const blocker = new pg.Client(fleet.databaseUrl)
  await blocker.connect()
  await blocker.query('begin; lock table jobs in access exclusive mode')
  await assertRefused(Array.from({ length: 30 }, (_, index) => caller.single(`meanwhile ${index}`)))
  await blocker.query('rollback')
  await blocker.end()
  assert.equal((await caller.single('after')).status, 200)
  assert.equal(await fleet.assertAllSettledOnce(), 2, 'what was refused is not stored')
})

/**
 * Ends the load. Asserts that all promised jobs have their answers, and that no job was stored twice. Returns the number of
 * jobs.
 */
async function assertNothingLost({ signal }: TestContext, fleet: Fleet, load: Load): Promise<number> {
  await load.stop()
  await load.ledger.readAll(fleet.caller(fleet.nodes[0]))
  await fleet.allSettled(signal)
  // Callers never repeat a conversation.
  const twice = await fleet.rows('select messages, count(*) from jobs group by messages having count(*) > 1')
  assert.deepEqual(twice, [])
  return fleet.assertAllSettledOnce()
}

async function assertRefused(replies: readonly Promise<Reply>[]): Promise<void> {
  for (const { status, headers, text } of await Promise.all(replies)) {
    assert.equal(status, 503, text)
    assert.ok(Number(headers['retry-after']) > 0)
  }
}

/**
 * Ends the connections of the nodes, and takes all connections of the cluster. The nodes are stopped meanwhile, so that they
 * cannot connect again first.
 */
async function takeAllConnections(cluster: Cluster, nodes: readonly Server[]): Promise<pg.Client[]> {
  const taken: pg.Client[] = []
  const take = async () => {
    const client = new pg.Client({ connectionString: cluster.url(), application_name: 'taker' })
    client.on('error', () => {})
    await client.connect()
    taken.push(client)
    return client
  }
  const first = await take()
  for (const node of nodes) node.kill('SIGSTOP')
  try {
    for (let ended: number | null = null; ended !== 0; ) {
      await assert.rejects(async () => {
        for (;;) await take()
      }, /too many clients|remaining connection slots/)
      // The slots of the sessions are free only when the sessions have ended.
      const { rowCount } = await first.query(
        `select pg_terminate_backend(pid, ${ENDED_WITHIN_MS}) from pg_stat_activity
         where backend_type = 'client backend' and application_name <> 'taker'`,
      )
      ended = rowCount
    }
  } finally {
    for (const node of nodes) node.kill('SIGCONT')
  }
  return taken
}

async function ready({ signal }: TestContext, caller: Caller): Promise<void> {
  await eventually(async () => (await caller.send('/readyz')).status === 200, Boolean, { signal })
}
