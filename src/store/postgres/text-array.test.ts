/** Columns of texts arrive in Postgres as they are, in both forms. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { freshDatabase } from '../../../test/postgres/database.ts'
import { hasLarge, textArray } from './text-array.ts'

const COLUMNS: (string | null)[][] = [
  [],
  [null],
  ['', 'NULL', '{}', '"\\', 'é😀\n', null, 'null'],
  ['"\\{}é😀'.repeat(20_000)],
  ['x', null, '"'.repeat(70_000), ''],
  [null, 'x'.repeat(200_000), null],
]

test('texts of any length and null arrive as they are', async (t) => {
  const client = new pg.Client(await freshDatabase(t))
  await client.connect()
  t.after(() => client.end())
  for (const texts of COLUMNS) {
    const column = textArray(texts)
    assert.equal(hasLarge([1, column]), texts.join('').length > 65_536)
    const text = 'select u from unnest($1::text[], $2::integer[]) as t(u, place) order by place'
    // Prepared, as the statements of the store are, so that one statement takes both forms.
    const values = [column, texts.map((_, at) => at)]
    const { rows } = await client.query({ name: 'texts', text, values })
    assert.deepEqual(
      rows.map(({ u }) => u),
      texts,
    )
  }
})
