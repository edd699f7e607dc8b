/** Searches for open batches do not read the many batches that have ended, which are stored for weeks. */
import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { connectPostgres } from '../../test/postgres/connection.ts'
import { freshDatabase } from '../../test/postgres/database.ts'
import { batchOperations } from './batches.ts'
import type { Dialect } from './dialect.ts'
import { connectionSettings } from './postgres/database.ts'
import { POSTGRES } from './postgres/dialect.ts'
import { migratePostgres } from './postgres/schema.ts'
import { Sql } from './sql.ts'
import { SQLITE } from './sqlite/dialect.ts'
import { MIGRATIONS } from './sqlite/migrations.ts'

function searches(dialect: Dialect): Sql[] {
  const { claimBatches, listBatches } = batchOperations(dialect)
  const claim = claimBatches.steps('node-a', 100)
  const steps = [claim.next(), claim.next([]), listBatches.steps({ onlyOpen: true, limit: 100 }).next()]
  return steps.map(({ value }) => (value instanceof Sql ? value : assert.fail()))
}

test('SQLite reads open batches only', (t) => {
  const db = new DatabaseSync(':memory:')
  t.after(() => db.close())
  for (const migration of MIGRATIONS) db.exec(migration)
  for (const { texts } of searches(SQLITE)) {
    const plan = db.prepare(`explain query plan ${texts.join('?')}`).all()
    for (const { detail } of plan)
      assert.doesNotMatch(String(detail), /SCAN batches(?! USING INDEX batches_open)/)
  }
})

test('Postgres reads open batches only', async (t) => {
  const url = await freshDatabase(t)
  await migratePostgres(url)
  const client = await connectPostgres(t, connectionSettings(url, null))
  await client.query(`insert into batches
    select n::text, 'acme', null, 1, 'completed', '', '', null, null, '', '', 1, 1, null, nullif(n % 300, 0) from generate_series(1, 3000) n`)
  await client.query('analyze batches')
  for (const { texts, values } of searches(POSTGRES)) {
    const text = texts.reduce((all, one, at) => `${all}$${at}${one}`)
    await client.query(`prepare search as ${text}`)
    const literals = values.map((value) => `'${value}'`).join(', ')
    const { rows } = await client.query(`explain analyze execute search (${literals})`)
    await client.query('deallocate search')
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n')
    for (const [, removed] of plan.matchAll(/Rows Removed by Filter: (\d+)/g))
      assert.ok(Number(removed) < 100, plan)
  }
})
