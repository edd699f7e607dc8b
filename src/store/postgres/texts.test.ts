/** Tests which texts are stored compressed in Postgres. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { connectPostgres } from '../../../test/postgres/connection.ts'
import { freshDatabase } from '../../../test/postgres/database.ts'
import { newJob, restartTime } from '../../../test/store-contract/fixtures.ts'
import { openScene } from '../../../test/store-contract/postgres-scene.ts'
import { accept, addAccounts, settle } from '../../../test/store-contract/steps.ts'
import { migratePostgres } from './schema.ts'
import { COMPRESS_FROM_BYTES, hasLarge, textArray } from './texts.ts'

const LARGE = 'a text that repeats, '.repeat(500)

async function storedTexts(t: TestContext, before: string) {
  restartTime()
  const { url, client, open } = await openScene(t)
  await migratePostgres(url)
  await client.query(before)
  const { store } = await open()
  await addAccounts(store, 'acme')
  const jobs = [LARGE, 'short'].map((content) => newJob({ messages: [{ role: 'user', content }] }))
  await accept(store, jobs, { handedOff: true })
  for (const [n, job] of jobs.entries()) {
    const contentJson = JSON.stringify(n === 0 ? LARGE : 'short')
    await settle(store, job, { outcome: { status: 'completed', contentJson } })
  }
  const { rows } = await client.query(`
    select messages is null as m, content is null as c, messages_zstd is not null as mz, content_zstd is not null as cz,
      coalesce(octet_length(messages_zstd) + octet_length(content_zstd), 0) as bytes
    from jobs join outcomes using (id) order by id`)
  return rows.map(({ m, c, mz, cz, bytes }) => ({ plain: [!m, !c], compressed: [mz, cz], bytes }))
}

test('large texts are compressed, and short ones are not', async (t) => {
  const [large, short] = await storedTexts(t, 'select 1')
  assert.deepEqual([large?.plain, large?.compressed].join(), 'false,false,true,true')
  assert.ok(large && large.bytes < COMPRESS_FROM_BYTES / 4, `${large?.bytes} bytes`)
  assert.deepEqual([short?.plain, short?.compressed].join(), 'true,true,false,false')
})

for (const lease of ['1 hour', '-1 hour']) {
  test(`nothing is compressed next to a node of 0.3 whose lease ends in ${lease}`, async (t) => {
    const insert = `insert into nodes (node, lease_until) values ('of 0.3', clock_timestamp() + interval '${lease}')`
    for (const { plain, compressed } of await storedTexts(t, insert)) {
      assert.deepEqual(plain, [true, true])
      assert.deepEqual(compressed, [false, false])
    }
  })
}

const COLUMNS: (string | null)[][] = [
  [],
  [null],
  ['', 'NULL', '{}', '"\\', 'é😀\n', null, 'null'],
  ['"\\{}é😀'.repeat(20_000)],
  ['x', null, '"'.repeat(70_000), ''],
  [null, 'x'.repeat(200_000), null],
]

test('texts of any length and null arrive as they are', async (t) => {
  const client = await connectPostgres(t, await freshDatabase(t))
  for (const texts of COLUMNS) {
    const column = textArray(texts)
    assert.equal(hasLarge([1, column]), texts.join('').length > 65_536)
    const text = 'select u from unnest($1::text[], $2::integer[]) as t(u, place) order by place'
    // The statement is prepared, like those of the store. One statement takes both forms of the parameter.
    const values = [column, texts.map((_, at) => at)]
    const { rows } = await client.query({ name: 'texts', text, values })
    assert.deepEqual(
      rows.map(({ u }) => u),
      texts,
    )
  }
})
