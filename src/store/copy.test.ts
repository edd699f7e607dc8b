import assert from 'node:assert/strict'
import { copyFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, type TestContext, test } from 'node:test'
import pg from 'pg'
import { freshDatabase } from '../../test/postgres/database.ts'
import { type DueCallback, LANES } from './callback-store.ts'
import { acceptance, newJob } from './contract/fixtures.ts'
import { type CopyCounts, copyDatabase } from './copy.ts'
import { DatabaseProblem } from './database-problem.ts'
import { openCopySource, openCopyTarget, openStore } from './open.ts'
import { options, type Population, populate } from './population-for-tests.ts'
import { openNode } from './postgres/nodes-for-tests.ts'

const SEED = Number(process.env.PARLEY_TEST_SEED ?? Date.now() % 1_000_000)

let made: { file: string; population: Population }
before(async () => {
  const file = join(await mkdtemp(join(tmpdir(), 'parley-copy-')), 'parley.db')
  made = { file, population: await populate(`sqlite:${file}`, SEED) }
})
after(() => rm(dirname(made.file), { recursive: true, force: true }))

test('everything that matters goes from SQLite to Postgres and back unchanged', async (t) => {
  const { file, population } = await populated(t)
  const [middle, end] = [await freshDatabase(t), await newFile(t)]
  const there = await copyAll(`sqlite:${file}`, middle, population)
  const back = await copyAll(middle, `sqlite:${end}`, population)
  const [original, copied] = [rowsOf(file, expected(file, population)), rowsOf(end)]
  for (const [table, rows] of Object.entries(original)) assert.deepEqual(copied[table], rows, table)
  // Each kind is among them, or the comparison would say little.
  for (const [name, count] of Object.entries(there)) assert.ok(count > 0, `${name}: ${count}`)
  assert.equal(there.expired, population.expired.length)
  assert.deepEqual(back, { ...there, held: 0, expired: 0 })
})

test('SQLite to SQLite keeps the turns of accounts, too', async (t) => {
  const { file, population } = await populated(t)
  const end = await newFile(t)
  await copyAll(`sqlite:${file}`, `sqlite:${end}`, population)
  const before = rowsOf(file, expected(file, population))
  const turns = 'select account, next_turn from turns where next_turn > (select turn from line) order by 1'
  const [had, has] = [file, end].map((path) => all(path, turns))
  assert.deepEqual([rowsOf(end), has], [before, had])
  assert.ok(had && had.length > 0)
})

test('Postgres to Postgres', async (t) => {
  const { file, population } = await populated(t)
  const [first, second, end] = [await freshDatabase(t), await freshDatabase(t), await newFile(t)]
  await copyAll(`sqlite:${file}`, first, population)
  await copyAll(first, second, population)
  await copyAll(second, `sqlite:${end}`, population)
  assert.deepEqual(rowsOf(end), rowsOf(file, expected(file, population)))
})

test('the copy serves: the fair order, fences, kept answers, idempotency keys and callbacks', async (t) => {
  const { file, population } = await populated(t)
  const clock = { ms: population.nowMs }
  const url = await freshDatabase(t)
  await copyAll(`sqlite:${file}`, url, population)
  const inLine = all(
    file,
    `select id, attempt + 1 as attempt, deaths from jobs where settled_at_ms is null
     order by coalesce(turn, (select turn from line)), id`,
  )
  const store = await openStore(url, options('new', clock))
  t.after(() => store.close())

  assert.equal((await store.findKey('hash of key_acme_a'))?.account, 'acme')
  assert.notEqual(await store.recall(population.keptFingerprint, clock.ms), null)
  const { jobId, ...idempotency } = population.idempotencyKey
  const repeated = await store.accept(acceptance([newJob()], { idempotency, nowMs: clock.ms }))
  assert.deepEqual(repeated, { kind: 'repeated', jobIds: [jobId] })
  const claimed = await store.claim('new', 10_000, clock.ms)
  const order = claimed.map(({ id, attempt, deaths }) => ({ id, attempt, deaths }))
  assert.deepEqual(order, inLine)
  // What a server had in hand is nobody's any more.
  await store.reclaim('new', clock.ms)
  const due = all(
    file,
    'select job_id from callbacks where due_at_ms <= ? or node is not null order by job_id',
    clock.ms,
  )
  const taken: DueCallback[] = []
  for (const lane of LANES) {
    const take = { node: 'new', lane, limit: 10_000, nowMs: clock.ms, leaseUntilMs: clock.ms + 1000 }
    taken.push(...(await store.takeCallbacks(take)))
  }
  assert.deepEqual(
    taken.map(({ view }) => view.id).sort(),
    due.map((row) => row.job_id),
  )
})

test('a held job waits and reads assigned, with no death counted; a new job waits behind what was begun', async (t) => {
  const { file, population } = await populated(t)
  const clock = { ms: population.nowMs }
  const held = all(
    file,
    'select id, account, attempt + 1 as attempt, deaths from jobs where node is not null',
  )
  const [{ waiting = 0, begun = 0 } = {}] = all(
    file,
    'select count(*) as waiting, sum(attempt > 0) as begun from jobs where settled_at_ms is null',
  )
  assert.ok(held.length > 0 && Number(begun) > held.length)
  const [middle, end] = [await freshDatabase(t), `sqlite:${await newFile(t)}`]
  await copyAll(`sqlite:${file}`, middle, population)
  await copyAll(middle, end, population)
  for (const url of [middle, end]) {
    const store = await openStore(url, options('new', clock))
    t.after(() => store.close())
    const depth = await store.depth()
    assert.deepEqual([depth.waiting, depth.assigned], [waiting, 0])
    for (const { id, account } of held) {
      const expiry = { nowMs: clock.ms, retentionMs: population.retentionMs }
      assert.equal((await store.read(String(account), String(id), expiry))?.status, 'assigned')
    }
    const late = newJob({ id: 'ffffffff-0000-7000-8000-000000000000', account: 'newcomer' })
    await store.accept(acceptance([late], { node: 'new' }))
    const line = await store.claim('new', Number(waiting) + 1, clock.ms)
    const isHeld = new Set(held.map(({ id }) => id))
    assert.deepEqual(
      line
        .filter(({ id }) => isHeld.has(id))
        .map(({ id, account, attempt, deaths }) => ({ id, account, attempt, deaths })),
      held,
    )
    const place = line.findIndex(({ id }) => id === late.id)
    assert.ok(
      place >= Number(begun) && place < Number(waiting),
      `place ${place} of ${waiting}, ${begun} begun`,
    )
  }
})

test('what has expired stays behind; a shorter retention leaves more', async (t) => {
  const { file, population } = await populated(t)
  const end = await newFile(t)
  const day = { ...population, retentionMs: 86_400_000 }
  const { expired, ended } = await copyAll(`sqlite:${file}`, `sqlite:${end}`, day)
  assert.ok(expired > 500 && ended > 0, `${expired} expired, ${ended} ended`)
  const ids = new Set(all(end, 'select id from jobs').map(({ id }) => id))
  assert.ok(population.expired.every((id) => !ids.has(id)))
  const orphans = `select seq from kept_answers where seq not in (select seq from jobs)
    union all select seq from callbacks where seq not in (select seq from jobs)`
  assert.deepEqual(all(end, orphans), [])
})

test('jobs arrive in partitions, which go as a whole when they have expired', async (t) => {
  const { file, population } = await populated(t)
  for (const retentionMs of [population.retentionMs, 36 * 3_600_000]) {
    const url = await freshDatabase(t)
    await copyAll(`sqlite:${file}`, url, { ...population, retentionMs })
    const client = await connect(t, url)
    const count = async (sql: string) =>
      Number((await client.query(`select count(*) as n from ${sql}`)).rows[0].n)
    const partitions = `pg_inherits where inhparent = 'jobs'::regclass`
    assert.deepEqual([await count('jobs_default'), await count('outcomes_default')], [0, 0])
    const [made, open] = [await count(partitions), await count('open_jobs')]
    assert.ok(made > 7 && (await count('jobs')) > open, `${made} partitions`)
    const clock = { ms: population.nowMs + 30 * 86_400_000 }
    await client.query('update callbacks set due_at_ms = null')
    const store = await openStore(url, { ...options('later', clock), retentionMs })
    await store.close()
    const left = await count(partitions)
    assert.ok(left < made && (await count('jobs')) >= open, `${left} of ${made} partitions`)
  }
})

test('a job from long ago or from the future goes to the default partition', async (t) => {
  const { file, population } = await populated(t)
  const [oldest, newest] = ['00000000-0000-7000-8000-000000000000', 'ffffffff-0000-7000-8000-000000000000']
  change(
    file,
    `update jobs set id = '${oldest}' where id = (select min(id) from jobs where settled_at_ms is null)`,
  )
  change(
    file,
    `update jobs set id = '${newest}' where id = (select max(id) from jobs where settled_at_ms is null)`,
  )
  const url = await freshDatabase(t)
  await copyAll(`sqlite:${file}`, url, population)
  const { rows } = await (await connect(t, url)).query('select id from jobs_default order by id')
  assert.deepEqual(
    rows.map(({ id }) => id),
    [oldest, newest],
  )
})

test('large texts come in small batches', async (t) => {
  const file = await newFile(t)
  const clock = { ms: Date.now() }
  const store = await openStore(`sqlite:${file}`, options('one', clock))
  const key = {
    id: 'k',
    hash: 'h',
    account: 'acme',
    tier: 'user_max',
    secret: 's',
    expiresAtMs: null,
  } as const
  await store.createKey({ ...key, createdAtMs: clock.ms })
  await store.close()
  const id = (n: number) => `01890a5d-ac96-7${String(n).padStart(3, '0')}-8000-000000000000`
  for (let n = 0; n < 40; n++) {
    change(
      file,
      `insert into jobs values ('${id(n)}', ${n}, 'acme', 'user_max', 'm', 'pending', ${n}, null, 0, 0, 0, 0, 0, 1, null, null)`,
    )
    change(file, `insert into requests values (${n}, '${'x'.repeat(1024 * 1024)}', '{}', null)`)
  }
  const expiry = { nowMs: clock.ms, retentionMs: 1000 }
  const url = await freshDatabase(t)
  await copyAll(`sqlite:${file}`, url, expiry)
  for (const address of [`sqlite:${file}`, url]) {
    const source = await openCopySource(address)
    const sizes: number[] = []
    for await (const batch of source.jobs()) sizes.push(batch.length)
    await source.close()
    assert.equal(
      sizes.reduce((a, b) => a + b),
      40,
    )
    assert.ok(Math.max(...sizes) <= 5, `batches of ${sizes}`)
  }
})

test('a database that is served is neither copied nor filled', async (t) => {
  const { file, population } = await populated(t)
  const clock = { ms: population.nowMs }
  const path = await newFile(t)
  const server = await openStore(`sqlite:${path}`, options('server', clock))
  await refused(openCopySource(`sqlite:${path}`), /server, or another copy, is using .*SIGTERM/)
  await refused(target(`sqlite:${path}`, population), /server, or another copy, is using .*SIGTERM/)
  await server.close()

  const url = await freshDatabase(t)
  const node = await openNode(url)
  t.after(() => node.store.close())
  await node.store.renew(node.name, 30_000)
  await refused(openCopySource(url), /1 Parley server uses this database.*SIGTERM.* in (29|30) s/)
  await refused(target(url, population), /1 Parley server uses this database.*SIGTERM/)
  await node.store.renew(node.name, -1)
  // Its lease has ended: it is dead, and holds nobody up.
  await copyAll(`sqlite:${file}`, url, population)
})

test('while a copy runs no server starts, no command writes, and no other copy begins', async (t) => {
  const { file, population } = await populated(t)
  const clock = { ms: population.nowMs }
  const [path, url] = [await newFile(t), await freshDatabase(t)]
  const filled = `sqlite:${path}`
  const toFile = await target(filled, population)
  await refused(openStore(filled, options('server', clock)), /Another Parley server is using/)
  await refused(target(filled, population), /another copy/)
  await toFile.close()

  const toPostgres = await target(url, population)
  await refused(openStore(url, options('server', clock)), /under way\. Wait/)
  await refused(target(url, population), /under way\. Wait/)
  await refused(openCopySource(url), /under way\. Wait/)
  await toPostgres.close()

  const source = await openCopySource(`sqlite:${file}`)
  await refused(openStore(`sqlite:${file}`, options('server', clock)), /Another Parley server is using/)
  await source.close()
  const fromPostgres = await openCopySource(url)
  await refused(openStore(url, options('server', clock)), /under way\. Wait/)
  await fromPostgres.close()
})

test('a target that holds anything is refused, and stays as it is', async (t) => {
  const { file, population } = await populated(t)
  const clock = { ms: population.nowMs }
  for (const url of [`sqlite:${await newFile(t)}`, await freshDatabase(t)]) {
    const store = await openStore(url, options('server', clock))
    const key = {
      id: 'k',
      hash: 'h',
      account: 'mine',
      tier: 'user_go',
      secret: 's',
      expiresAtMs: null,
    } as const
    await store.createKey({ ...key, createdAtMs: 1 })
    await store.close()
    await refused(copyAll(`sqlite:${file}`, url, population), /holds accounts or jobs already.*Name one/)
    const again = await openStore(url, options('server', clock))
    assert.deepEqual(
      (await again.listKeys()).map(({ id }) => id),
      ['k'],
    )
    await again.close()
  }
})

test('a source that is none is refused, and nothing is made of it', async (t) => {
  const missing = await newFile(t)
  await refused(openCopySource(`sqlite:${missing}`), /There is no file/)
  const other = await newFile(t)
  new DatabaseSync(other).exec('create table theirs (a); pragma user_version = 0')
  await refused(openCopySource(`sqlite:${other}`), /no database of Parley's/)
  assert.deepEqual(all(other, 'select name from sqlite_schema'), [{ name: 'theirs' }])
  const url = await freshDatabase(t)
  await refused(openCopySource(url), /no tables of Parley's/)
  const { rows } = await (await connect(t, url)).query(`select to_regclass('jobs') as jobs`)
  assert.deepEqual(rows, [{ jobs: null }])
})

test('a copy that fails in the middle leaves the target empty, names the cause, and can be run again', async (t) => {
  const { file, population } = await populated(t)
  const [last] = all(
    file,
    'select id, messages, seq from jobs join requests using (seq) order by id desc limit 1',
  )
  change(file, `update requests set messages = char(0) where seq = ${last?.seq}`)
  const url = await freshDatabase(t)
  await refused(
    copyAll(`sqlite:${file}`, url, population),
    /The copy stopped at jobs, after \d\d+ jobs: Postgres says: invalid byte sequence.*\. Nothing of it stays/,
  )
  const path = await newFile(t)
  const half = await target(`sqlite:${path}`, population)
  const source = await openCopySource(`sqlite:${file}`)
  for await (const jobs of source.jobs()) await half.addJobs(jobs)
  await refused(half.addJobs([await firstJob(source)]), /SQLite says: UNIQUE constraint failed: jobs\.id/)
  await half.close()
  await source.close()
  assert.deepEqual(
    [all(path, 'select id from jobs'), all(path, 'pragma journal_mode')],
    [[], [{ journal_mode: 'wal' }]],
  )

  const db = new DatabaseSync(file)
  db.prepare('update requests set messages = ? where seq = ?').run(String(last?.messages), Number(last?.seq))
  db.close()
  for (const again of [url, `sqlite:${path}`]) await copyAll(`sqlite:${file}`, again, population)
})

async function firstJob(source: Awaited<ReturnType<typeof openCopySource>>) {
  for await (const [job] of source.jobs()) if (job) return job
  throw new Error('there is no job')
}

/** A file of the test's own, with what was made once for all. */
async function populated(t: TestContext): Promise<{ file: string; population: Population }> {
  t.diagnostic(`PARLEY_TEST_SEED=${SEED}`)
  const file = await newFile(t)
  await copyFile(made.file, file)
  return { file, population: made.population }
}

async function newFile(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'parley-copy-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  return join(folder, 'parley.db')
}

interface Moment {
  readonly nowMs: number
  readonly retentionMs: number
}

function target(url: string, { nowMs, retentionMs }: Moment) {
  return openCopyTarget(url, { expiry: { nowMs, retentionMs }, onNote: () => {} })
}

async function copyAll(from: string, to: string, moment: Moment): Promise<Readonly<CopyCounts>> {
  const source = await openCopySource(from)
  try {
    const into = await target(to, moment)
    try {
      return await copyDatabase(source, into, moment, () => {})
    } finally {
      await into.close()
    }
  } finally {
    await source.close()
  }
}

async function refused(attempt: Promise<unknown>, says: RegExp): Promise<void> {
  await assert.rejects(attempt, (error) => {
    assert.ok(error instanceof DatabaseProblem, String(error))
    assert.match(error.message, says)
    return true
  })
}

async function connect(t: TestContext, url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  t.after(() => client.end())
  return client
}

type Row = Record<string, unknown>

function all(path: string, sql: string, ...values: number[]): Row[] {
  const db = new DatabaseSync(path)
  try {
    return db
      .prepare(sql)
      .all(...values)
      .map((row) => ({ ...row }))
  } finally {
    db.close()
  }
}

function change(path: string, sql: string): void {
  const db = new DatabaseSync(path)
  db.exec(sql)
  db.close()
}

/** What a copy of the file should hold: SQL that picks the rows of jobs. */
function expected(path: string, { nowMs, retentionMs }: Population) {
  const [line] = all(path, 'select turn from line')
  return { turn: Number(line?.turn), nowMs, retentionMs }
}

/** The file's contents by the ids of jobs, without what belongs to a file or to a node. */
function rowsOf(path: string, only = { turn: 0, nowMs: 0, retentionMs: 0 }): Record<string, Row[]> {
  const { turn, nowMs, retentionMs } = only
  const live = `(j.settled_at_ms is null or c.due_at_ms is not null
    or j.settled_at_ms + max(${retentionMs}, j.cache_ttl_s * 1000) > ${nowMs})`
  return {
    accounts: all(path, 'select * from accounts order by name'),
    keys: all(path, 'select * from keys order by id'),
    jobs: all(
      path,
      `select j.id, j.account, j.tier, j.model, j.status, case when j.node is null then j.turn else ${turn} end as turn,
         j.attempt, j.deaths, case when j.settled_at_ms is null then null else j.claimed_at_ms end as claimed_at_ms,
         j.cache_ttl_s, j.input_tokens, j.has_callback, j.created_at_ms, j.settled_at_ms, r.messages, r.response_format, r.callback,
         o.content, o.error, o.usage, o.receipt,
         c.job_id, c.account as owed_to, c.attempt as callback_attempt, c.due_at_ms, c.delivered_at_ms
       from jobs j join requests r using (seq) left join outcomes o using (seq) left join callbacks c using (seq)
       where ${live} order by j.id`,
    ),
    answers: all(
      path,
      `select j.id, k.fingerprint, k.until_ms from kept_answers k join jobs j using (seq)
       where k.until_ms > ${nowMs} order by j.id`,
    ),
    idempotency: all(path, `select * from idempotency where until_ms > ${nowMs} order by account, key`),
  }
}
