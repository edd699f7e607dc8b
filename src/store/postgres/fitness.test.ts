/** Tests that Parley does not start on a database with a problem. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connectPostgres } from '../../../test/postgres/connection.ts'
import { administer, afterAllElse, freshDatabase, uniqueName } from '../../../test/postgres/database.ts'
import { DAY_MS, expiry } from '../../../test/store-contract/fixtures.ts'
import { openNode } from '../../../test/support/postgres-nodes.ts'
import { refused } from '../../../test/support/transfer-databases.ts'
import { checkFitness } from './fitness.ts'

test('a database whose encoding lacks characters is a problem', async (t) => {
  const database = uniqueName()
  await administer(`create database ${database} template template0 encoding 'LATIN1' locale 'C'`)
  afterAllElse(t, () => administer(`drop database ${database} with (force)`))
  const url = new URL(await freshDatabase(t))
  url.pathname = `/${database}`
  url.search = ''
  await assert.rejects(openNode(url.href), /The encoding of the database is LATIN1.*UTF8/)
})

test('a role that does not own the tables needs rights to all of them, and leaves partitions to their owner', async (t) => {
  const url = new URL(await freshDatabase(t))
  const owner = await openNode(url.href)
  await owner.store.close()
  const role = uniqueName()
  const client = await connectPostgres(t, url.href)
  const { rows } = await client.query<{ schema: string }>('select current_schema() as schema')
  const schema = rows[0]?.schema
  const partitions = `select 1 from pg_inherits where inhparent = 'jobs'::regclass`
  const before = (await client.query(partitions)).rowCount
  await client.query(`create role ${role} login; grant usage, create on schema ${schema} to ${role}`)
  afterAllElse(t, () => administer(`drop owned by ${role}; drop role ${role}`))
  await client.query(`grant select, insert, update, delete on all tables in schema ${schema} to ${role}`)
  await client.query(`revoke all on batch_lines from ${role}`)
  url.username = role
  await assert.rejects(openNode(url.href), /may not read and write all tables/)
  await client.query(`grant select, insert, update, delete on batch_lines to ${role}`)
  const node = await openNode(url.href)
  assert.match(node.notes.join(), /does not own the tables/)
  const nowMs = Date.now() + 10 * DAY_MS
  assert.equal(await node.store.expire(expiry(nowMs, 7 * DAY_MS)), false)
  assert.equal((await client.query(partitions)).rowCount, before)
  await node.store.close()
})

test('an isolation level that a pooler imposes is a problem', async (t) => {
  const client = await connectPostgres(t, await freshDatabase(t))
  const queries = { query: async ({ text }: { text: string }) => (await client.query(text)).rows }
  await checkFitness(queries, () => {})
  await client.query(`set default_transaction_isolation = 'serializable'`)
  await refused(
    checkFitness(queries, () => {}),
    /serializable.*read committed/,
  )
})
