/** Transfers copy every column of both stores, or `NOT_COPIED` names it. So a new column cannot be forgotten. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { temporaryFolder } from '../../test/parley.ts'
import { connectPostgres } from '../../test/postgres/connection.ts'
import { freshDatabase } from '../../test/postgres/database.ts'
import { migratePostgres } from './postgres/schema.ts'
import { migrateFile } from './sqlite/schema.ts'
import { KINDS } from './transfer-contract.ts'

/**
 * These tables and columns belong to running nodes, are computed again by the target, repeat what other columns contain, or are
 * no longer used.
 */
const NOT_COPIED = {
  sqlite: `
    batches.node callbacks.node callbacks.seq callbacks.under_way cancelled_jobs jobs.crashed_alone jobs.node jobs.seq jobs.started
    kept_answers.seq line outcomes.seq probe quota_state quota_sums requests.seq reruns.taken_at_ms turns`,
  postgres: `
    batches.node callbacks.node callbacks.under_way cancelled_jobs crashes nodes open_jobs.claimed_at_ms open_jobs.crashed_alone
    open_jobs.node open_jobs.origin open_jobs.started probe quota_deltas quota_sums rates reruns.taken_at_ms schema_version
    usage_deltas`,
}

function assertCopied(
  rows: readonly { readonly tbl: unknown; readonly col: unknown }[],
  store: 'sqlite' | 'postgres',
): void {
  const columns = Object.values(KINDS).flatMap((kind) => Object.entries(kind.columns))
  const copied = columns.flatMap(([name, [, sqlite, postgres]]) =>
    (store === 'sqlite' ? sqlite : postgres).split(' ').map((table) => `${table}.${name}`),
  )
  const known = new Set([...copied, ...NOT_COPIED[store].trim().split(/\s+/)])
  const lost = rows.filter(({ tbl, col }) => !known.has(String(tbl)) && !known.has(`${tbl}.${col}`))
  assert.deepEqual(
    lost.map(({ tbl, col }) => `${tbl}.${col}`),
    [],
    'Add them to KINDS in transfer-contract.ts, or to NOT_COPIED here',
  )
}

test('on SQLite', async (t) => {
  const file = join(await temporaryFolder(t), 'parley.db')
  migrateFile(file)
  const db = new DatabaseSync(file, { readOnly: true })
  t.after(() => db.close())
  const rows = db.prepare(`
    select m.name as tbl, c.name as col from sqlite_schema m, pragma_table_info(m.name) c
    where m.type = 'table' and m.name not like 'sqlite_%'`)
  assertCopied(rows.all() as { tbl: unknown; col: unknown }[], 'sqlite')
})

test('on Postgres', async (t) => {
  const url = await freshDatabase(t)
  await migratePostgres(url)
  const client = await connectPostgres(t, url)
  const { rows } = await client.query(`
    select c.relname as tbl, a.attname as col from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
      and a.attnum > 0 and not a.attisdropped`)
  assertCopied(rows, 'postgres')
})
