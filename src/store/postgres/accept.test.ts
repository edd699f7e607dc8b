/** Tests acceptances in Postgres: large groups, keys that are found among many, and equal keys in one group. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connectPostgres } from '../../../test/postgres/connection.ts'
import { acceptance, newJob, now, several } from '../../../test/store-contract/fixtures.ts'
import { openOnPostgres } from '../../../test/store-contract/postgres-scene.ts'
import { accept, addEnded, settle } from '../../../test/store-contract/steps.ts'
import { connectionSettings } from './database.ts'

test('4,000 jobs of one group are accepted within the time of a statement, queued, handed off or cached', async (t) => {
  const { store } = await openOnPostgres(t, 'acme', 'other')
  const cache = { fingerprint: 'e'.repeat(22), untilMs: now.ms + 300_000 }
  await addEnded(store, {}, { cache })
  const batch = (account: string) => several(2000, { account })
  await Promise.all([accept(store, batch('acme')), accept(store, batch('other'))])
  assert.equal((await store.depth()).waiting, 4000)
  await accept(store, batch('acme'), { handedOff: true })
  assert.equal((await store.depth()).assigned, 2000)
  const cached = await store.accept(acceptance(batch('acme'), { fingerprint: cache.fingerprint }))
  assert.equal(cached.kind === 'accepted' && cached.answered?.length, 2000)
})

test('a plan for keys that was made while the tables were empty reads few rows of full ones', async (t) => {
  const { url } = await openOnPostgres(t, 'acme', 'other')
  const client = await connectPostgres(t, connectionSettings(url, null))
  const find = async () => {
    const { rows } = await client.query({
      name: 'find',
      text: `select * from taken_keys(array[1, 2], array['acme', 'acme'], array['key 7', 'no key'], array['f', 'f'], array['[]', '[]'], 1)`,
    })
    return rows
  }
  await client.query('begin')
  assert.deepEqual(await find(), [])
  const id = `('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))`
  await client.query(`
    insert into jobs (id, account, tier, model, cache_ttl_s, input_tokens, created_at_ms, messages, response_format)
    select ${id}::uuid, 'acme', 'user_max', 'm', 0, 1, 1, '[]', '{}' from generate_series(1, 2000) n`)
  await client.query(`
    insert into idempotency (account, key, fingerprint, job_ids, until_ms)
    select 'acme', 'key ' || n, 'f', '["' || ${id} || '"]', 2 from generate_series(1, 2000) n`)
  const read = async () => {
    const { rows } = await client.query(
      `select sum(coalesce(idx_tup_fetch, 0) + seq_tup_read)::int as rows from pg_stat_xact_user_tables
        where schemaname = current_schema()`,
    )
    return rows[0].rows
  }
  const before = await read()
  const [found, ...others] = await find()
  assert.deepEqual(
    [found.request, found.job_ids, others.length],
    [1, '["00000000-0000-7000-8000-000000000007"]', 0],
  )
  const rows = (await read()) - before
  assert.ok(rows > 0 && rows < 10, `${rows} rows`)
})

test('the second of two equal keys in one group is accepted if it repeats a request whose jobs are gone', async (t) => {
  const { store } = await openOnPostgres(t, 'acme', 'other')
  const idempotencyOf = (fingerprint: string) => ({ key: 'k', fingerprint, untilMs: now.ms + 300_000 })
  const [gone] = await accept(store, [newJob()], { handedOff: true, idempotency: idempotencyOf('f') })
  await settle(store, gone)
  assert.equal(await store.deleteJob(gone.id), 'deleted')
  // Acceptances that arrive together share a group.
  const before = [newJob(), newJob()].map((job) => store.accept(acceptance([job])))
  const jobs = [newJob(), newJob(), newJob(), newJob()]
  const accepted = await Promise.all(
    ['other', 'f', 'another', 'f'].map((fingerprint, index) =>
      store.accept(acceptance(jobs.slice(index, index + 1), { idempotency: idempotencyOf(fingerprint) })),
    ),
  )
  await Promise.all(before)
  const conflict = { kind: 'conflict' }
  assert.deepEqual(accepted, [
    conflict,
    { kind: 'accepted' },
    conflict,
    { kind: 'repeated', jobIds: [jobs[1]?.id] },
  ])
})
