/** Tests `parley check` and `parley serve` on a Postgres that is suitable, weak, unsuitable or missing. */
import assert from 'node:assert/strict'
import test from 'node:test'
import pg from 'pg'
import { startModelServer } from '../model-server.ts'
import { startCluster } from '../postgres/cluster.ts'
import { freshDatabase, freshRealDatabase } from '../postgres/database.ts'
import { installation } from './server-process.ts'

const timeout = 60_000

test('a fit database passes, and no password is shown', { timeout }, async (t) => {
  const url = new URL(await freshDatabase(t))
  url.password = 'canary'
  const upstream = await startModelServer({}, t)
  // A model server is configured, because the check would warn of the simulator.
  const place = await installation(t, { databaseUrl: url.href, upstream: upstream.baseUrl })
  const { code, stdout } = await place.parley(['check'], { env: { OPENAI_MODEL: 'a-model' } })
  assert.equal(code, 0, stdout)
  assert.match(stdout, /^ok +database: Postgres \d+\.\d+ at 127\.0\.0\.1/m)
  assert.ok(!/canary|^note|WRONG/m.test(stdout), stdout)
})

test('check changes nothing in the database', { timeout }, async (t) => {
  const url = await freshDatabase(t)
  const place = await installation(t, { databaseUrl: url })
  await place.parley(['check'])
  const client = new pg.Client(url)
  await client.connect()
  const { rows } = await client.query(
    'select 1 from pg_class where relnamespace = current_schema()::regnamespace',
  )
  await client.end()
  assert.deepEqual(rows, [])
})

test('a missing database is reported in a sentence', { timeout }, async (t) => {
  const place = await installation(t, { databaseUrl: 'postgres://nobody:canary@127.0.0.1:1/nowhere' })
  const checked = await place.parley(['check'])
  assert.equal(checked.code, 1)
  assert.match(checked.stdout, /WRONG database: .*ECONNREFUSED/)
  const served = await place.parley(['serve'])
  assert.deepEqual([served.code, served.stdout], [1, ''])
  assert.match(served.stderr, /The database cannot be used: .*ECONNREFUSED.*DATABASE_URL/)
  assert.ok(!/canary/.test(checked.stdout + served.stderr))
})

test('a URL that is neither SQLite nor Postgres is reported, and not repeated', { timeout }, async (t) => {
  const place = await installation(t, { databaseUrl: 'mysql://root:canary@localhost/db' })
  const { code, stdout } = await place.parley(['check'])
  assert.equal(code, 1)
  assert.match(stdout, /database: must be sqlite:PATH or postgres:/)
  assert.ok(!/canary/.test(stdout))
})

test('fsync=off stops the start; what only weakens is said', { timeout }, async (t) => {
  const cluster = await startCluster({ settings: { fsync: 'off', synchronous_commit: 'off' } })
  t.after(() => cluster.stop())
  const place = await installation(t, { databaseUrl: cluster.url() })
  const checked = await place.parley(['check'])
  assert.equal(checked.code, 1)
  assert.match(checked.stdout, /WRONG database: .*fsync=off/)
  assert.match(checked.stdout, /^note +database: synchronous_commit is off/m)
  const served = await place.parley(['serve'])
  assert.deepEqual([served.code, served.stdout], [1, ''])
  assert.match(served.stderr, /fsync=off/)
})

test('the error for a role that cannot create tables explains what to grant', { timeout }, async (t) => {
  const url = await freshRealDatabase(t)
  const owner = new pg.Client(url)
  await owner.connect()
  const role = `poor_${process.pid}`
  await owner.query(`create role ${role} login`)
  const poor = new URL(url)
  poor.username = role
  const place = await installation(t, { databaseUrl: poor.href })
  const { code, stdout } = await place.parley(['check'])
  assert.equal(code, 1)
  assert.match(stdout, new RegExp(`grant create on schema public to ${role}`))
  const served = await place.parley(['serve'])
  assert.deepEqual([served.code, served.stdout], [1, ''])
  await owner.query(`drop role ${role}`)
  await owner.end()
})

test('nodes that start at once on an empty database all come up; a newer schema is refused', {
  timeout,
}, async (t) => {
  const url = await freshRealDatabase(t)
  const place = await installation(t, { databaseUrl: url })
  const servers = await Promise.all([place.start(), place.start(), place.start()])
  for (const server of servers) assert.equal((await fetch(`${server.url}/readyz`)).status, 200)
  const client = new pg.Client(url)
  await client.connect()
  await client.query('insert into schema_version values (999)')
  await client.end()
  const { code, stderr } = await place.parley(['serve'])
  assert.equal(code, 1)
  assert.match(stderr, /newer Parley/)
})

test('a role for a node needs a shared database', { timeout }, async (t) => {
  const place = await installation(t)
  const { code, stderr } = await place.parley(['serve', '--role', 'worker'])
  assert.equal(code, 1)
  assert.match(
    stderr,
    /--role worker needs a database that several nodes can share\. Set DATABASE_URL=postgres/,
  )
})
