/** Tests jobs, kills and rolling restarts on a Postgres that several nodes share. */
import assert from 'node:assert/strict'
import test, { after } from 'node:test'
import { reply, startModelServer } from '../model-server.ts'
import type { Lifetime } from '../parley.ts'
import type { Server } from '../process/server-process.ts'
import { eventually } from '../support/eventually.ts'
import { LONG } from '../support/long-form.ts'
import { LEASE_S, nodeName, startFleet, TAKEN_OVER_S } from './fleet.ts'
import { Load, unhurried } from './load.ts'

const NODES = 3
const ADMIN_TOKEN = 'an-admin-token-for-this-test'
const KEYS = LONG ? 200 : 4
const AT_ONCE = LONG ? 8 : 4
/** Every node rejects a revoked key within this time. */
const REJECTED_WITHIN_MS = 5000
const BY_COMMAND = 4

const program = { env: { PARLEY_ADMIN_TOKEN: ADMIN_TOKEN } }
/** Starting nodes takes most of a test's time, so the tests that need three nodes and leave three share these. */
const shared = await start({ after }, NODES)

async function start(t: Lifetime, nodes: number) {
  const models = await startModelServer({ script: unhurried }, t)
  const fleet = await startFleet(t, { nodes, upstream: models.baseUrl, program })
  return { models, fleet }
}

test('three nodes settle every job exactly once, and call the model once for each', async () => {
  const { models, fleet } = shared
  const load = new Load(fleet, 6)
  await load.more(80)
  await load.stop()
  await load.ledger.readAll(fleet.caller(fleet.nodes[0]))
  assert.equal(await fleet.assertAllSettledOnce(), load.ledger.size)
  assert.equal(models.requests.length, load.ledger.size)
  const shares = await fleet.rows('select count(*)::int as jobs from outcomes group by node')
  assert.equal(shares.length, 3, 'all nodes took part')
})

test('jobs of a killed node end on others after its lease has expired, and no sooner', async (t) => {
  const { models, fleet } = shared
  const load = new Load(fleet, 6)
  await load.more(50)
  // From here on, the model server holds its requests, so that jobs are running when the node crashes.
  models.script = () => reply.stall()
  await fleet.until(t.signal, 'select count(distinct node) = 3 from open_jobs where node is not null')
  const [victim] = fleet.nodes
  assert.ok(victim)
  const node = await nodeName(victim)
  fleet.remove(victim)
  await victim.crash()
  const diedMs = performance.now()
  const held = await fleet.rows('select id from open_jobs where node = $1', [node])
  const [lease] = await fleet.rows('select lease_until::text as until from nodes where node = $1', [node])
  assert.ok(held.length > 0)
  models.script = unhurried
  models.release()
  await load.stop()
  await fleet.until(t.signal, 'select not exists (select 1 from nodes where node = $1)', [node])
  const [taken] = await fleet.rows('select clock_timestamp() > $1::timestamptz as in_time', [lease?.until])
  assert.equal(taken?.in_time, true, 'its jobs were taken while its lease lasted')
  const ids = held.map(({ id }) => id)
  await fleet.until(t.signal, 'select count(*) = $1::int from outcomes where id = any($2::uuid[])', [
    ids.length,
    ids,
  ])
  const seconds = (performance.now() - diedMs) / 1000
  assert.ok(seconds < TAKEN_OVER_S, `it took ${seconds} s`)
  await load.ledger.readAll(fleet.caller(fleet.nodes[0]))
  await fleet.assertAllSettledOnce()
  await fleet.add(program)
  t.diagnostic(`${ids.length} jobs, ended ${seconds.toFixed(1)} s after the kill, lease ${LEASE_S} s`)
})

test('a rolling restart under load loses nothing and rejects nothing', async (t) => {
  const { fleet } = shared
  const earlier = await fleet.assertAllSettledOnce()
  const load = new Load(fleet, 3)
  for (const node of [...fleet.nodes]) {
    await load.more(30)
    await fleet.add(program)
    fleet.remove(node)
    const exit = await node.stop()
    assert.deepEqual(exit, { code: 0, signal: null })
  }
  await load.more(30)
  await load.stop()
  await load.ledger.readAll(fleet.caller(fleet.nodes[0]))
  // A request whose connection was closed was not accepted, so the counts must be equal.
  assert.equal((await fleet.assertAllSettledOnce()) - earlier, load.ledger.size)
  assert.equal(load.refused, 0)
  t.diagnostic(`${load.ledger.size} jobs, ${load.cutOff} requests met a closing connection`)
})

test('a node that only accepts and one that only works answer a caller together', async (t) => {
  const { fleet } = await start(t, 0)
  const api = await fleet.add({ args: ['--role', 'api'] })
  const worker = await fleet.add({ args: ['--role', 'worker'] })
  const replies = await Promise.all(
    Array.from({ length: 50 }, (_, index) => fleet.caller(api).single(`job ${index}`)),
  )
  for (const [index, { status, body }] of replies.entries()) {
    assert.equal(status, 200)
    assert.equal(body.data?.result?.response_content, `echo: job ${index}`)
  }
  assert.equal((await fleet.caller(worker).single('no')).status, 404)
  assert.equal((await fleet.caller(worker).send('/readyz')).status, 200)
  const [kept] = await Promise.all([fleet.caller(api).single('job 7'), fleet.caller(api).single('job 7')])
  assert.equal(kept.headers['x-cache'], 'hit')
})

interface Key {
  readonly id: string
  readonly key: string
}

test(`${KEYS} keys revoked under load are rejected by all nodes within ${REJECTED_WITHIN_MS / 1000} seconds`, async (t) => {
  const { fleet } = shared
  const load = new Load(fleet, 4)
  const left = Array.from({ length: KEYS }, (_, index) => index).values()
  const revoked: Key[] = []
  let slowestMs = 0
  const admin = async (index: number, path: string, body: object) => {
    const headers = { authorization: `Bearer ${ADMIN_TOKEN}`, 'content-type': 'application/json' }
    const url = `${fleet.nodes[index % NODES]?.url}/admin/api/${path}`
    const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })
    assert.ok(response.ok, `${response.status}`)
    return ((await response.json()) as { data: Key }).data
  }
  const answered = async ({ key }: Key, expected: number) => {
    const statuses = () => Promise.all(fleet.nodes.map((node) => statusOf(node, key)))
    await eventually(statuses, (all) => all.every((status) => status === expected), { signal: t.signal })
  }
  const work = async () => {
    for (const index of left) {
      const key = await admin(index, 'keys', { account: `account-${index}`, tier: 'user_go' })
      await answered(key, 200)
      if (index % BY_COMMAND === 0) assert.equal((await fleet.parley(['keys', 'revoke', key.id])).code, 0)
      else await admin(index, `keys/${key.id}/revoke`, {})
      const revokedMs = performance.now()
      await answered(key, 401)
      slowestMs = Math.max(slowestMs, performance.now() - revokedMs)
      revoked.push(key)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  assert.ok(slowestMs < REJECTED_WITHIN_MS, `once a key was accepted for ${slowestMs} ms more`)
  for (const node of fleet.nodes) {
    for (const { key } of revoked) assert.equal(await statusOf(node, key), 401, 'a revoked key works again')
  }
  await load.stop()
  await load.ledger.readAll(fleet.caller(fleet.nodes[0]))
  t.diagnostic(
    `${KEYS} keys, rejected ${Math.round(slowestMs)} ms after the revocation at most; ${load.ledger.size} jobs meanwhile`,
  )
})

async function statusOf({ url }: Server, key: string): Promise<number> {
  const response = await fetch(`${url}/api/v1/me`, { headers: { 'x-api-key': key } })
  await response.arrayBuffer()
  return response.status
}
