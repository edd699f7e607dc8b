/**
 * Starts this program on a database of the first release, in the state in which its server was killed. Everything can be read,
 * queued and running jobs run, a pending callback is delivered, and ended jobs count as usage. That release created the
 * databases. Their files are never edited.
 */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { DatabaseSync } from 'node:sqlite'
import pg from 'pg'
import { openForOperator } from '../../src/store/open.ts'
import { startModelServer } from '../model-server.ts'
import { onBothStores } from '../process/both-stores.ts'
import { installation } from '../process/server-process.ts'
import { startReceiver } from '../receiver.ts'
import { eventually } from '../support/eventually.ts'
import { countStored } from '../support/stored-sums.ts'

const KEY = 'prl_z0Mgda1rYkcIkhhhXb73qPloAwyJPaJo0ryqdr'
const KEY_OF_SMALL = 'prl_vXOHRxjc3yOkB1Yyt51YEBDcSmZvxDQD4CYN4q'
const ENDED = {
  completed: '01a1feff-f685-7000-9bb1-81ba3b5a79cc',
  json: '01a1feff-f6b1-7000-80eb-5b76f919b495',
  failed: '01a1feff-f6b9-7000-9657-55516b20b762',
  ofSmall: '01a1feff-f6bf-7000-a8e2-a0943578a928',
  delivered: '01a1feff-f6d9-7000-822a-d02463342de3',
  undelivered: '01a1feff-f6d9-7001-9b5c-21d2352adbaf',
}
/** Two of these jobs were running, and two were queued. */
const OPEN = {
  '01a1feff-f737-7000-8733-94a352dc4180': 'held: stalls 1',
  '01a1feff-f737-7001-96aa-cf4d0fccb8f8': 'held: stalls 2',
  '01a1feff-f737-7002-a4ff-e2bfea06c397': 'waits 1',
  '01a1feff-f737-7003-91f3-2c315b3b90e0': 'waits 2',
}
/** The jobs of the first release can be read for a hundred years. */
const RETENTION = 3_155_760_000

/** The first release sent its callbacks to this address. */
const OLD_RECEIVER = 'http://127.0.0.1:34535'

/**
 * Returns the statements that create the database. Its callback became due a moment ago and goes to `receiver`. With its own
 * times it would one day be pending for too long, and this test would depend on the date.
 */
async function statements(store: string, receiver: string): Promise<string> {
  const file = await readFile(new URL(`./first-schema.${store}.sql`, import.meta.url), 'utf8')
  assert.ok(file.includes(OLD_RECEIVER))
  const nowMs = Date.now()
  return `${file.replaceAll(OLD_RECEIVER, receiver)}
    update callbacks set owed_since_ms = ${nowMs - 60_000}, due_at_ms = ${nowMs} where due_at_ms is not null;`
}

async function create(url: string, receiver: string): Promise<void> {
  if (url.startsWith('sqlite:')) {
    const db = new DatabaseSync(url.slice('sqlite:'.length))
    db.exec(await statements('sqlite', receiver))
    db.close()
    return
  }
  const client = new pg.Client(url)
  await client.connect()
  await client.query(await statements('postgres', receiver))
  await client.end()
}

const title = (store: string) =>
  `a ${store === 'SQLite' ? 'SQLite file' : 'Postgres database'} of the first release`

onBothStores(title, async (t, { databaseUrl }) => {
  const upstream = await startModelServer({}, t)
  const receiver = await startReceiver({}, t)
  const settings = { jobs: { retention_seconds: RETENTION }, callbacks: { allow_networks: ['127.0.0.0/8'] } }
  const options = { upstream: upstream.baseUrl, settings, ...(databaseUrl !== undefined && { databaseUrl }) }
  const place = await installation(t, options)
  const database = databaseUrl ?? `sqlite:${place.database}`
  await create(database, receiver.url)
  assert.ok((await place.json(['migrate'])).steps > 0)
  const store = await openForOperator(database)
  t.after(() => store.close())
  const sums = { month: '2026-11', model: 'gpt-5-mini', cacheHits: 0 }
  assert.deepEqual(await store.listUsage({ limit: 10 }), [
    { account: 'acme', ...sums, jobs: 5, failedJobs: 2, calls: 6, inputTokens: 466, outputTokens: 280 },
    { account: 'small', ...sums, jobs: 1, failedJobs: 0, calls: 1, inputTokens: 20, outputTokens: 26 },
  ])
  const server = await place.start()
  const [acme, small] = [server.caller(KEY), server.caller(KEY_OF_SMALL)]
  const read = async (id: string) => (await acme.read(id)).body.data
  assert.equal(
    (await read(ENDED.completed))?.result?.response_content,
    'echo: Grüße aus der ersten Fassung 🙂',
  )
  assert.equal((await read(ENDED.failed))?.error?.code, 'model_error')
  assert.equal((await read(ENDED.json))?.error?.code, 'validation_error')
  for (const id of [ENDED.delivered, ENDED.undelivered]) assert.equal((await read(id))?.status, 'completed')
  assert.equal((await acme.read(ENDED.ofSmall)).status, 404)
  assert.equal((await small.read(ENDED.ofSmall)).body.data?.status, 'completed')
  for (const [id, content] of Object.entries(OPEN)) {
    assert.equal((await acme.ended(id)).body.data?.result?.response_content, `echo: ${content}`)
  }
  assert.equal(upstream.requests.length, 4)
  const used = await store.listUsage({ account: 'acme', limit: 10 })
  assert.equal(
    used.reduce((sum, { jobs }) => sum + jobs, 0),
    9,
  )
  const stored = await countStored(database)
  assert.deepEqual(Object.keys(stored), ['acme', 'small'])
  for (const [account, use] of Object.entries(stored)) {
    assert.equal(use.openJobs, 0)
    assert.deepEqual(await store.quotaUse(account), use, account)
  }
  const callbacks = await eventually(
    async () => (await store.searchCallbacks({ limit: 10 })).items,
    (items) => items.every(({ state }) => state !== 'owed'),
  )
  assert.deepEqual(
    callbacks.map(({ jobId, state, attempts }) => [jobId, state, attempts]),
    [
      [ENDED.undelivered, 'delivered', 2],
      [ENDED.delivered, 'delivered', 1],
    ],
  )
  const [sent, ...more] = receiver.requests
  assert.deepEqual([sent?.path, sent?.headers['x-a'], more.length], ['/down', 'b', 0])
  assert.deepEqual(await server.stop(), { code: 0, signal: null })
})
