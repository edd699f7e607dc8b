/**
 * Tests the deletion of accounts in Postgres: while their jobs and batches are being stored, with callbacks that are still due,
 * and the scrub afterwards.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CALLBACK, FAILED, owed, record, take } from '../../../test/store-contract/callback-fixtures.ts'
import { acceptance, newJob, now } from '../../../test/store-contract/fixtures.ts'
import { openOnPostgres } from '../../../test/store-contract/postgres-scene.ts'
import { eventually } from '../../../test/support/eventually.ts'

/** Finds the statements that wait for the transaction of this connection. */
const WAITING =
  "pg_locks where not granted and locktype = 'transactionid' and transactionid = (select backend_xid from pg_stat_activity where pid = pg_backend_pid())"

test('a job whose transaction began before its account was deleted is found when that ends', async (t) => {
  const { store, client, count } = await openOnPostgres(t, 'acme')
  // The acceptance has stored the job, and its transaction waits for this one.
  await client.query('begin')
  await client.query("insert into idempotency values ('acme', 'key', 'f', '[]', 0)")
  const idempotency = { key: 'key', fingerprint: 'f', untilMs: now.ms + 1000 }
  const accepted = store.accept(acceptance([newJob()], { idempotency }))
  await eventually(
    () => count(WAITING),
    (waits) => waits === 1,
  )
  const deleted = store.deleteAccount('acme', 'deleted-1')
  await eventually(
    () => store.secrets('acme'),
    (secrets) => secrets === null,
  )
  await client.query('rollback')
  assert.deepEqual(await accepted, { kind: 'accepted' })
  assert.equal(await deleted, 'has open jobs')
  await assert.rejects(store.accept(acceptance([newJob()])), { name: 'UnknownAccount' })
})

test('a callback that is due although its account was deleted has no secrets, and can be recorded', async (t) => {
  const { store, client } = await openOnPostgres(t, 'acme')
  const jobId = await owed(store)
  await client.query('delete from accounts')
  const [due] = await take(store)
  const body = due && (await store.loadCallback(due))
  assert.deepEqual([body?.view.id, body?.callback.url, body?.secrets], [jobId, CALLBACK.url, null])
  assert.equal(await store.recordCallback(record(jobId, 1, FAILED)), true)
  assert.deepEqual(await take(store), [])
})

test('a batch is deleted with the lines of a step that was being stored', async (t) => {
  const { store, client, count } = await openOnPostgres(t, 'acme')
  const [id, jobId, inputFileId] = [newJob().id, newJob().id, newJob().id]
  const batch = { id, account: 'acme', inputFileId, endpoint: '', aboutJson: '{}', createdAtMs: now.ms }
  await store.createBatch({ ...batch, deadlineMs: now.ms }, 1)
  // This transaction stores what a step of a batch stores, and is not committed yet.
  await client.query('begin')
  await client.query('update batches set version = version + 1')
  await client.query("insert into batch_lines values ($1, 1, 'line', $2)", [id, jobId])
  const deleted = store.deleteBatchesOf('acme')
  await eventually(
    () => count(WAITING),
    (waits) => waits === 1,
  )
  await client.query('commit')
  await deleted
  assert.deepEqual([await count('batches'), await count('batch_lines')], [0, 0])
})

test('a scrub vacuums every table that had contents or the name of an account', async (t) => {
  const { store, client } = await openOnPostgres(t, 'acme')
  await store.scrub()
  const { rows } = await client.query(
    "select relname from pg_class where relnamespace = current_schema()::regnamespace and relkind = 'r' and reltuples < 0",
  )
  const left = rows.map(({ relname }) => relname).sort()
  assert.deepEqual(left, ['admin_tokens', 'audit', 'nodes', 'probe', 'rates', 'schema_version'])
})
