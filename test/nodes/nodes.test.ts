/** Tests jobs, kills and rolling restarts on a Postgres that several nodes share. */
import assert from 'node:assert/strict'
import test, { after } from 'node:test'
import { reply, startModelServer } from '../model-server.ts'
import type { Lifetime } from '../parley.ts'
import type { Server } from '../process/server-process.ts'
import { LEASE_S, startFleet, TAKEN_OVER_S } from './fleet.ts'
import { Load, unhurried } from './load.ts'

const timeout = 180_000

const NODES = 3

/** The tests that need three nodes and leave three share these nodes, because starting nodes takes most of their time. */
const shared = await start({ after }, NODES)

async function start(t: Lifetime, nodes: number) {
  const models = await startModelServer({ script: unhurried }, t)
  const fleet = await startFleet(t, { nodes, upstream: models.baseUrl })
  return { models, fleet }
}

test('three nodes settle every job exactly once, and call the model once for each', {
  timeout,
}, async () => {
  const { models, fleet } = shared
  const load = new Load(fleet, 12)
  await load.more(150)
  await load.stop()
  await load.ledger.readAll(fleet.caller(fleet.nodes[0]))
  assert.equal(await fleet.assertAllSettledOnce(), load.ledger.size)
  assert.equal(models.requests.length, load.ledger.size)
  const shares = await fleet.rows('select count(*)::int as jobs from outcomes group by node')
  assert.equal(shares.length, 3, 'all nodes took part')
})

test('jobs of a killed node end on others after its lease has expired, and no sooner', {
  timeout,
}, async (t) => {
  const { models, fleet } = shared
  const load = new Load(fleet, 12)
  await load.more(100)
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
  await fleet.add()
  t.diagnostic(`${ids.length} jobs, ended ${seconds.toFixed(1)} s after the kill, lease ${LEASE_S} s`)
})

test('a node that was stopped past its lease writes nothing of what it held, and works on', {
  timeout,
}, async (t) => {
  const { models, fleet } = await start(t, 1)
  const [paused] = fleet.nodes
  assert.ok(paused)
  models.script = () => reply.stall()
  // One slot of 16 is reserved for other accounts.
  const contents = Array.from({ length: 15 }, (_, index) => `job ${index}`)
  const { body } = await fleet.caller(paused).batch(contents)
  const ids = body.data?.job_ids ?? []
  await models.received(contents.length)
  const node = await nodeName(paused)
  const other = await fleet.add()
  paused.kill('SIGSTOP')
  // The other node has rescued all jobs. It calls the model for the first of them, and settles all while the first node is
  // stopped.
  await models.received(contents.length + 1)
  models.script = (_request, index) => (index >= 0 ? reply.text('a late answer') : undefined)
  models.release()
  await fleet.until(t.signal, 'select count(*) = $1::int from outcomes', [contents.length])
  const before = await fleet.rows('select * from outcomes order by id')
  assert.ok(before.every((row) => row.node !== node))
  paused.kill('SIGCONT')
  // The node receives its own answers too late. It must not write any of them, and notices that its lease has expired.
  await paused.program.logged(/the lease of this node expired/)
  assert.equal(await counted(paused, 'leases_lost_total'), 1)
  assert.equal(await counted(other, 'jobs_reclaimed_total'), contents.length)
  models.script = () => undefined
  const { status, body: later } = await fleet.caller(paused).single('after the pause')
  assert.equal(status, 200)
  assert.equal(later.data?.result?.response_content, 'echo: after the pause')
  const ofBefore = await fleet.rows('select * from outcomes where id = any($1::uuid[]) order by id', [ids])
  assert.deepEqual(ofBefore, before)
})

test('a rolling restart under load loses nothing and rejects nothing', { timeout }, async (t) => {
  const { fleet } = shared
  const earlier = await fleet.assertAllSettledOnce()
  const load = new Load(fleet, 6)
  for (const node of [...fleet.nodes]) {
    await load.more(60)
    await fleet.add()
    fleet.remove(node)
    const exit = await node.stop()
    assert.deepEqual(exit, { code: 0, signal: null })
  }
  await load.more(60)
  await load.stop()
  await load.ledger.readAll(fleet.caller(fleet.nodes[0]))
  // The counts are equal, because a request whose connection was closed was not accepted.
  assert.equal((await fleet.assertAllSettledOnce()) - earlier, load.ledger.size)
  assert.equal(load.refused, 0)
  t.diagnostic(`${load.ledger.size} jobs, ${load.cutOff} requests met a closing connection`)
})

test('a node that only accepts and one that only works answer a caller together', { timeout }, async (t) => {
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

/** Returns the node's name, which is in its log. */
async function nodeName({ program }: Server): Promise<string> {
  const [, node = ''] = await program.logged(/"node":"(\w+)"/)
  return node
}

/** Returns the value of a counter in the node's metrics. */
async function counted({ url }: Server, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text()
  return Number(new RegExp(`^parley_${name} (\\d+)$`, 'm').exec(text)?.[1])
}
