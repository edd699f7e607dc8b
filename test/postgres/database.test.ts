import assert from 'node:assert/strict'
import test from 'node:test'
import { Client, Pool } from 'pg'
import { connectPostgres } from './connection.ts'
import { freshDatabase, freshRealDatabase } from './database.ts'

const COUNT_SCHEMAS = 'select count(*)::int as found from pg_namespace where nspname = $1'
const COUNT_DATABASES = 'select count(*)::int as found from pg_database where datname = $1'

test('each schema is separate, for clients and pools', async (t) => {
  const urls = await Promise.all([freshDatabase(t), freshDatabase(t)])
  for (const [index, url] of urls.entries()) {
    await query(url, 'create table mine (number int)')
    await query(url, `insert into mine values (${index})`)
  }
  for (const [index, url] of urls.entries()) {
    const pool = new Pool({ connectionString: url })
    t.after(() => pool.end())
    assert.deepEqual((await pool.query('select number from mine')).rows, [{ number: index }])
  }
})

for (const [what, make, name, count] of [
  ['schema', freshDatabase, 'current_schema()', COUNT_SCHEMAS],
  ['database', freshRealDatabase, 'current_database()', COUNT_DATABASES],
] as const) {
  test(`a ${what} lasts until what works in it has stopped, and no longer`, async (t) => {
    const other = await freshDatabase(t)
    let made: unknown
    await t.test('works in it', async (inner) => {
      const url = await make(inner)
      made = (await query(url, `select ${name} as it`))[0]?.it
      inner.after(async () => query(url, 'create table written_by_a_hook (it int)'))
    })
    assert.deepEqual(await query(other, count, [made]), [{ found: 0 }])
  })
}

test('notifications stay in their database', async (t) => {
  const [ours, theirs] = await Promise.all([freshRealDatabase(t), freshRealDatabase(t)])
  const listener = await connectPostgres(t, ours)
  const heard: unknown[] = []
  listener.on('notification', ({ payload }) => heard.push(payload))
  await listener.query('listen news')
  await query(theirs, `notify news, 'theirs'`)
  await query(ours, `notify news, 'ours'`)
  // The result of a query arrives after all earlier notifications.
  await listener.query('select 1')
  assert.deepEqual(heard, ['ours'])
})

async function query(url: string, text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> {
  const client = new Client(url)
  await client.connect()
  try {
    return (await client.query<Record<string, unknown>>(text, values)).rows
  } finally {
    await client.end()
  }
}
