/** What a claim costs in Postgres, however long the queue is. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { freshDatabase } from '../../../test/postgres/database.ts'
import { CLAIM, CLAIM_EXCEPT, CLAIM_FIRST, CLAIM_FIRST_EXCEPT, CLAIM_OF_ROUTE } from './claim-statements.ts'
import { connectionSettings, type Statement } from './database.ts'
import { openPostgresStore } from './postgres-store.ts'
import { migratePostgres } from './schema.ts'

const JOBS = 20_000

interface Routes {
  readonly many: string
  readonly single: string
}

interface Plan {
  readonly 'Node Type': string
  readonly 'Shared Hit Blocks': number
  readonly 'Shared Read Blocks': number
  readonly Plans?: readonly Plan[]
}

/**
 * A connection as a node has it, and a long queue of one account, with a job of another behind it. Every row is written once:
 * an older version of one stays in the indexes while any other test has a transaction open, and would count as pages read.
 * @param routes of the two accounts
 */
async function longQueue(t: TestContext, routes: Routes = { many: '', single: '' }): Promise<pg.Client> {
  const isSingle = (yes: string, no: string) => `case when n = ${JOBS} then '${yes}' else '${no}' end`
  const account = isSingle('single', 'many')
  return (await queueOf(t, JOBS, { account, messages: `'[]'`, route: isSingle(routes.single, routes.many) }))
    .client
}

/** Of a job `n`, in SQL. */
interface Columns {
  readonly account: string
  readonly messages: string
  readonly route: string
}

async function queueOf(t: TestContext, jobs: number, { account, messages, route }: Columns) {
  const url = await freshDatabase(t)
  await migratePostgres(url)
  const client = new pg.Client(connectionSettings(url, null))
  await client.connect()
  t.after(() => client.end())
  const id = `('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid`
  await client.query(`
    insert into jobs (id, account, tier, model, cache_ttl_s, input_tokens, created_at_ms, messages, response_format)
    select ${id}, ${account}, 'user_max', 'm', 0, 1, 1, ${messages}, '{"format":"text"}' from generate_series(1, ${jobs}) n`)
  await client.query(`
    insert into open_jobs (id, account, has_callback, turn, attempt, deaths, route)
    select ${id}, ${account}, false, n * 1000, 0, 0, ${route} from generate_series(1, ${jobs}) n`)
  return { url, client }
}

/** Runs the statement; returns the pages that it read and the types of its plan's nodes. */
async function explain(client: pg.Client, { text }: Statement, values: string) {
  await client.query(`prepare explained as ${text}`)
  const { rows } = await client.query<{ 'QUERY PLAN': [{ Plan: Plan }] }>(
    `explain (analyze, buffers, format json) execute explained (${values})`,
  )
  const plan = rows[0]?.['QUERY PLAN'][0].Plan
  assert.ok(plan)
  return { pages: plan['Shared Hit Blocks'] + plan['Shared Read Blocks'], nodes: nodesOf(plan) }
}

function nodesOf(plan: Plan): string[] {
  return [plan['Node Type'], ...(plan.Plans ?? []).flatMap(nodesOf)]
}

test('a claim at the head of a long queue reads few pages', async (t) => {
  const client = await longQueue(t)
  const { pages, nodes } = await explain(client, CLAIM, `'node', 0, 4, 2, 1, 0, 8192, 1000000, 3`)
  t.diagnostic(`${pages} pages`)
  assert.ok(pages < 150, `${pages} pages`)
  assert.ok(!nodes.includes('Seq Scan'), nodes.join(', '))
})

test('a claim for the accounts that are not excepted reads few pages, whatever is queued before their jobs', async (t) => {
  const client = await longQueue(t)
  const values = `'node', 4, '', 2, 0, 8192, 1000000, array['many'], 300`
  const { pages, nodes } = await explain(client, CLAIM_FIRST, values)
  t.diagnostic(`${pages} pages`)
  assert.ok(pages < 150, `${pages} pages`)
  assert.ok(!nodes.includes('Seq Scan'), nodes.join(', '))
  const { rows } = await client.query('select account from open_jobs where node is not null')
  assert.deepEqual(rows, [{ account: 'single' }])
})

test('a claim past the routes of 20,000 jobs reads few pages', async (t) => {
  const client = await longQueue(t, { many: 'dead', single: 'live' })
  const statements = [
    [CLAIM_EXCEPT, `'node', 0, 4, 2, 1, 0, 8192, 1000000, 3, array['dead']`],
    [CLAIM_OF_ROUTE, `'node', 4, 'dead', 2, 0, 8192, 1000000, array[]::uuid[]`],
    [CLAIM_FIRST_EXCEPT, `'node', 4, '', 2, 0, 8192, 1000000, array['nobody'], 300, array['dead']`],
  ] as const
  for (const [statement, values] of statements) {
    const { pages, nodes } = await explain(client, statement, values)
    t.diagnostic(`${statement.name}: ${pages} pages`)
    assert.ok(pages < 250, `${statement.name}: ${pages} pages`)
    assert.ok(!nodes.includes('Seq Scan'), `${statement.name}: ${nodes.join(', ')}`)
    await client.query('deallocate explained')
  }
  const { rows } = await client.query(
    'select account, count(*)::int as jobs from open_jobs where node is not null group by 1 order by 1',
  )
  assert.deepEqual(rows, [
    { account: 'many', jobs: 4 },
    { account: 'single', jobs: 1 },
  ])
})

test('a search continues past any number of accounts whose jobs are too large', async (t) => {
  const account = `case when n <= 1000 then 'large ' || n else 'small' end`
  const messages = `case when n <= 1000 then '["' || repeat('x', 2000) || '"]' else '[]' end`
  const { url } = await queueOf(t, 1001, { account, messages, route: `''` })
  const store = await openPostgresStore({
    url,
    node: 'node',
    connections: 2,
    prepare: true,
    statementMs: 15_000,
    maxQueued: 100,
    retentionMs: 604_800_000,
    nowMs: () => 0,
    onNote: () => {},
  })
  t.after(() => store.close())
  const bounds = { exceptOf: [], bytes: { small: 1000, max: 0 } }
  const { jobs, tooLarge } = await store.claim('node', 4, 0, bounds)
  assert.deepEqual(
    jobs.map((job) => job.account),
    ['small'],
  )
  assert.equal(tooLarge?.account, 'large 1')
})
