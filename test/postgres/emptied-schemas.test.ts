import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { connectPostgres } from './connection.ts'
import { emptyTables } from './emptied-schemas.ts'

async function testWith(t: TestContext, ...statements: string[]): Promise<unknown> {
  let name: unknown
  await t.test('works in it', async (inner) => {
    const client = await connectPostgres(inner, await emptyTables(inner))
    const { rows } = await client.query(`select current_schema() as name,
      (select count(*)::int from accounts) as accounts, (select count(*)::int from jobs) as jobs`)
    assert.deepEqual([rows[0]?.accounts, rows[0]?.jobs], [0, 0])
    name = rows[0]?.name
    for (const statement of statements) await client.query(statement)
  })
  return name
}

const ACCOUNT = `insert into accounts (name, tier, secret) values ('acme', 'user_max', '')`
/** One job goes into today's partition, the other into the default partition. */
const JOBS = `insert into jobs (id, account, tier, model, cache_ttl_s, input_tokens, created_at_ms, messages, response_format)
  select id, 'acme', 'user_max', 'gpt-5', 0, 0, 0, '', ''
  from unnest(array[uuidv7(), '00000000-0000-7000-8000-000000000000']) as id`

test('the next test gets the same tables, and nothing that the one before it wrote', async (t) => {
  const name = await testWith(t, ACCOUNT, JOBS)
  assert.equal(await testWith(t, ACCOUNT), name)
  assert.equal(await testWith(t), name)
})

for (const change of [
  'alter table jobs add constraint rejected check (true) not valid',
  'alter table accounts alter column tier set default 0',
  'create table more (it int)',
  'drop table callbacks',
  'drop trigger count_outcome on outcomes',
]) {
  test(`tables are dropped after ${change}`, async (t) => {
    const name = await testWith(t, change)
    assert.notEqual(await testWith(t), name)
  })
}

test('tests that run at the same time have tables of their own', async (t) => {
  const urls = await Promise.all([emptyTables(t), emptyTables(t)])
  assert.equal(new Set(urls).size, 2)
})
