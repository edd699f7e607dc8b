/** Tests that the cost of claims and searches of open jobs in Postgres does not depend on the length of the queue. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type pg from 'pg'
import { connectPostgres } from '../../../test/postgres/connection.ts'
import { freshDatabase } from '../../../test/postgres/database.ts'
import { sql } from '../sql.ts'
import { CLAIM_OF_LANE, CLAIM_SUSPECTS, QUEUED, QUEUED_SUSPECTS, WALK } from './claim.ts'
import { ACCOUNTS } from './cost-caps.ts'
import { connectionSettings, type Statement } from './database.ts'
import { POSTGRES } from './dialect.ts'
import { queuedJobsInFairOrder } from './fair-order.ts'
import { LOCK_OVERDUE, LOCK_OVERDUE_OF_ACCOUNT } from './overdue.ts'
import { migratePostgres } from './schema.ts'

const JOBS = 20_000
const LEAST_ID = '00000000-0000-0000-0000-000000000000'

interface Plan {
  readonly 'Node Type': string
  readonly 'Actual Rows': number
  readonly 'Shared Hit Blocks': number
  readonly 'Shared Read Blocks': number
  readonly Plans?: readonly Plan[]
}

interface Columns {
  readonly account: string
  readonly route: string
  readonly deaths: string
}

/**
 * Creates a long queue, and a connection with a node's settings. Every row is written only once, because old versions of rows
 * would stay in the indexes while another test has an open transaction, and would count as pages read.
 */
async function longQueue(t: TestContext, { account, route, deaths }: Columns): Promise<pg.Client> {
  const url = await freshDatabase(t)
  await migratePostgres(url)
  const client = await connectPostgres(t, connectionSettings(url, null))
  const id = `('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid`
  await client.query(`
    insert into jobs (id, account, tier, model, cache_ttl_s, input_tokens, created_at_ms, messages, response_format)
    select ${id}, ${account}, 'user_max', 'm', 0, 1, 1, '[]', '{"format":"text"}' from generate_series(1, ${JOBS}) n`)
  await client.query(`
    insert into open_jobs (id, account, has_callback, turn, attempt, deaths, route)
    select ${id}, ${account}, false, n * 1000, 0, ${deaths}, ${route} from generate_series(1, ${JOBS}) n`)
  return client
}

const isLast = (yes: string, no: string) => `case when n = ${JOBS} then ${yes} else ${no} end`

/** Runs the statement. Returns how many pages it read, the node types of its plan, and the most rows that one node returned. */
async function explain(client: pg.Client, { text }: Statement, values: string) {
  await client.query(`prepare explained as ${text}`)
  const { rows } = await client.query<{ 'QUERY PLAN': [{ Plan: Plan }] }>(
    `explain (analyze, buffers, format json) execute explained ${values}`,
  )
  await client.query('deallocate explained')
  const plan = rows[0]?.['QUERY PLAN'][0].Plan
  assert.ok(plan)
  const nodes = nodesOf(plan)
  return {
    pages: plan['Shared Hit Blocks'] + plan['Shared Read Blocks'],
    types: nodes.map((node) => node['Node Type']),
    mostRows: Math.max(...nodes.map((node) => node['Actual Rows'])),
  }
}

function nodesOf(plan: Plan): Plan[] {
  return [plan, ...(plan.Plans ?? []).flatMap(nodesOf)]
}

async function assertCheap(
  t: TestContext,
  client: pg.Client,
  statement: Statement,
  values: string,
  most: number,
) {
  const { pages, types, mostRows } = await explain(client, statement, values)
  t.diagnostic(`${statement.name}: ${pages} pages, ${mostRows} rows`)
  assert.ok(pages < most, `${statement.name}: ${pages} pages`)
  assert.ok(!types.includes('Seq Scan'), `${statement.name}: ${types.join(', ')}`)
  return mostRows
}

const walk = (route: string, limit: number, except: string) =>
  `('node', ${limit}, 0, '${route}', 0, '${LEAST_ID}', ${limit + 1024}, array[${except}]::text[], array[]::uuid[])`

async function claimed(client: pg.Client) {
  const { rows } = await client.query(
    'select account, count(*)::int as jobs from open_jobs where node is not null group by 1 order by 1',
  )
  return rows
}

test('with a single job beside a long queue of one account and route', async (t) => {
  const account = isLast(`'single'`, `'many'`)
  const client = await longQueue(t, { account, route: isLast(`'short'`, `'long'`), deaths: '0' })

  await t.test('a walk past the jobs of an account looks at a bounded number of rows', async (t) => {
    const mostRows = await assertCheap(t, client, WALK, walk('long', 4, `'many'`), 1500)
    assert.equal(mostRows, 1028)
    assert.deepEqual(await claimed(client), [])
  })

  await t.test('a claim of a long queue reads few pages and rows', async (t) => {
    await client.query('begin')
    assert.ok((await assertCheap(t, client, WALK, walk('long', 4, ''), 150)) < 10)
    await assertCheap(t, client, WALK, walk('short', 4, ''), 60)
    const lane = `('node', 4, 0, 'long', 'many', array[]::uuid[])`
    assert.ok((await assertCheap(t, client, CLAIM_OF_LANE, lane, 150)) < 10)
    await assertCheap(t, client, CLAIM_SUSPECTS, `('node', 4, 0, 1, 3, array[]::text[])`, 20)
    await assertCheap(t, client, QUEUED, '', 40)
    await assertCheap(t, client, QUEUED_SUSPECTS, '', 20)
    assert.deepEqual(await claimed(client), [
      { account: 'many', jobs: 8 },
      { account: 'single', jobs: 1 },
    ])
    await client.query('rollback')
  })

  await t.test(
    'jobs that have waited too long are found in the queue of their route or account',
    async (t) => {
      const overdue = (route: string, of: string) =>
        `('${route}', ${of}, 256, 0, 10, 'ffffffff-ffff-ffff-ffff-ffffffffffff')`
      for (const statistics of ['', 'analyze open_jobs']) {
        await client.query(statistics)
        await assertCheap(t, client, LOCK_OVERDUE, overdue('short', 'null'), 60)
        for (const lane of [`'single'`, `'none'`])
          await assertCheap(t, client, LOCK_OVERDUE_OF_ACCOUNT, overdue('long', lane), 60)
      }
    },
  )
})

test('with a few assigned jobs beside a long queue of one account and route', async (t) => {
  const client = await longQueue(t, { account: `'many'`, route: `'long'`, deaths: '0' })
  await client.query(`update open_jobs set turn = null, node = 'a', attempt = 1 where turn % 300000 = 0`)
  await client.query('vacuum (full, analyze) open_jobs')

  await t.test('a search of assigned jobs reads none that were never claimed', async (t) => {
    const { texts } = POSTGRES.jobsWith('assigned', sql`id`, sql`id < ${''} and id >= ${''}`)
    const text = `${texts.reduce((all, one, at) => `${all}$${2 - (at % 2)}${one}`)} order by id desc limit 2000`
    const values = `('ffffffff-ffff-ffff-ffff-ffffffffffff', '${LEAST_ID}')`
    await assertCheap(t, client, { name: 'search', text }, values, 200)
  })

  await t.test(
    'no statement reads the queue of another route or account, even if statistics show only that one',
    async (t) => {
      await assertCheap(t, client, WALK, walk('short', 4, ''), 20)
      const end = walk('long', 4, '').replace(`, 0, '${LEAST_ID}'`, `, ${JOBS * 1000 + 1}, '${LEAST_ID}'`)
      await assertCheap(t, client, WALK, end, 20)
      for (const lane of [`'short', 'many'`, `'a', 'many'`, `'long', 'single'`])
        await assertCheap(t, client, CLAIM_OF_LANE, `('node', 4, 0, ${lane}, array[]::uuid[])`, 20)
      await assertCheap(t, client, ACCOUNTS, `(array['budget'])`, 20)
      for (const job of [
        `'many' as account, 'short' as route`,
        `'many' as account, 'a' as route`,
        `'single' as account, 'long' as route`,
      ]) {
        const jobs = `jobs as (select ${job}, 1 as step, false as handed_off, 1 as place)`
        const text = `with ${jobs}, ${queuedJobsInFairOrder('$1', 'jobs')} select * from begins`
        await assertCheap(t, client, { name: 'turns', text }, `('{"routes":{},"floor":0}')`, 20)
      }
      await client.query(`insert into open_jobs select ('f' || substr(id::text, 2))::uuid, account, has_callback, turn, node, attempt,
      deaths, claimed_at_ms, origin, 1, 'short' from open_jobs limit 1`)
      await assertCheap(t, client, QUEUED, '', 40)
    },
  )
})

test('a claim of many accounts with one job each costs no more than one of a single account', async (t) => {
  const account = `case when n % 2 = 0 then 'account ' || n else 'many' end`
  const client = await longQueue(t, { account, route: `'r'`, deaths: '0' })
  assert.ok((await assertCheap(t, client, WALK, walk('r', 4, ''), 150)) < 10)
  await assertCheap(t, client, CLAIM_OF_LANE, `('node', 4, 0, 'r', 'account 20000', array[]::uuid[])`, 60)
})

test('suspects are claimed and counted by their index', async (t) => {
  const client = await longQueue(t, { account: `'many'`, route: `'r'`, deaths: isLast('3', '1') })
  assert.ok((await assertCheap(t, client, CLAIM_SUSPECTS, `('node', 4, 0, 1, 1, array[]::text[])`, 150)) < 10)
  await assertCheap(t, client, CLAIM_SUSPECTS, `('node', 4, 0, 3, 3, array[]::text[])`, 60)
  assert.equal(await assertCheap(t, client, QUEUED_SUSPECTS, '', 30_000), 10_000)
  assert.deepEqual(await claimed(client), [{ account: 'many', jobs: 5 }])
})
