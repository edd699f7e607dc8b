/**
 * Tests `parley copy` as people run it: what it prints, what continues on the new database, and what a killed copy leaves
 * behind.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, statSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import test, { type TestContext } from 'node:test'
import { connectPostgres } from '../postgres/connection.ts'
import { freshDatabase } from '../postgres/database.ts'
import { eventually } from '../support/eventually.ts'
import { populate } from '../support/populated-database.ts'
import { type Caller, idsOf, jobOf } from './caller.ts'
import { reported } from './mistakes.ts'
import { installation, MAIN, type Program } from './server-process.ts'

const PASSWORD = 'pass-word-that-nobody-sees'

test('a server moves to Postgres with its keys, jobs, answers and repeatable requests', async (t) => {
  const place = await installation(t)
  const old = await place.start()
  const key = await old.firstKey()
  const before = old.caller(key)
  const kept = { message_cache_ttl: 300 }
  const answered = await before.single('Keep this answer.', kept)
  const failed = await before.single('[[fail model_error]]')
  assert.deepEqual([answered.status, failed.status], [200, 200])
  const batch = await batchOnce(before)
  const [waiting = ''] = idsOf(batch)
  const reads = await Promise.all([answered, failed].flatMap(idsOf).map((id) => before.read(id)))
  await old.crash()

  const url = new URL(await freshDatabase(t))
  url.password = PASSWORD
  const moved = await place.parley(['copy', '--from', `sqlite:${place.database}`, '--to', url.href])
  assert.deepEqual([moved.code, moved.stderr], [0, ''], 'no progress where nobody looks')
  assert.match(moved.stdout, /^Copied sqlite:\S+parley\.db to postgres:\/\/[^@]+ in \d+\.\d s\.\n/)
  assert.match(
    moved.stdout,
    /^accounts +1\nkeys +1\nopen jobs +3 \(3 of them were assigned to a server\)\nfinished jobs +2$/m,
  )
  assert.match(moved.stdout, /^idempotency keys +1$/m)
  assert.match(moved.stdout, /DATABASE_URL set to the new database/)
  assert.ok(!moved.stdout.includes(PASSWORD))

  const server = await place.start({ env: { DATABASE_URL: url.href, PARLEY_SIMULATOR: 'true' } })
  const after = server.caller(key)
  for (const read of reads) {
    const id = idsOf(read)[0] ?? ''
    assert.deepEqual(await after.read(id).then(({ status, text }) => [status, text]), [200, read.text])
  }
  assert.equal((await after.single('Keep this answer.', kept)).headers['x-cache'], 'hit')
  assert.deepEqual(idsOf(await batchOnce(after)), idsOf(batch))
  assert.equal((await after.ended(waiting)).body.data?.status, 'completed')

  const served = await place.parley(['copy', '--from', url.href, '--to', 'sqlite:back.db'])
  reported(served, /^--from postgres:\/\/[^@]+: 1 Parley server uses this database\. Stop it with SIGTERM/)
  assert.ok(!served.stderr.includes(PASSWORD))
  assert.ok(
    !existsSync(join(place.folder, 'back.db')),
    'nothing is made before the source is known to be good',
  )
})

test('mistakes are reported with their remedy, and never with a password', async (t) => {
  const place = await installation(t)
  await place.key('ada')
  const mine = `sqlite:${place.database}`
  const nowhere = `postgres://me:${PASSWORD}@127.0.0.1:1/parley?password=${PASSWORD}`
  const mistakes: readonly [from: string, to: string, says: RegExp][] = [
    ['parley.db', mine, /^--from: must be sqlite:PATH or postgres:/],
    [mine, `mysql://${PASSWORD}`, /^--to: must be sqlite:PATH or postgres:/],
    [mine, mine, /^--to sqlite:.*: A Parley server, or another copy, is using/],
    ['sqlite:none.db', 'sqlite:new.db', /^--from sqlite:none\.db: There is no file none\.db/],
    [mine, nowhere, /^--to postgres:\/\/127\.0\.0\.1:1\/parley: .*ECONNREFUSED/],
    [nowhere, 'sqlite:new.db', /^--from postgres:\/\/127\.0\.0\.1:1\/parley: .*ECONNREFUSED/],
    ['sqlite:other.db', mine, /^--to sqlite:.*holds accounts or jobs already.* Name one that no server/],
  ]
  await place.parley(['migrate'], { env: { DATABASE_URL: 'sqlite:other.db' } })
  for (const [from, to, says] of mistakes) {
    const ended = await place.parley(['copy', '--from', from, '--to', to])
    reported(ended, says)
    assert.ok(!ended.stderr.includes(PASSWORD), ended.stderr)
  }
})

test('passwords come from the environment or a file, and reach the database', async (t) => {
  const place = await installation(t)
  const { url, passwords } = await startAskingForPasswords(t)
  await writeFile(join(place.folder, 'password'), `${PASSWORD}-file\n`)
  const nowhere = 'sqlite:none.db'
  const env = { PARLEY_FROM_PASSWORD: `${PASSWORD}-from`, PARLEY_TO_PASSWORD: `${PASSWORD}-to` }
  const file = ['--from-password-file', 'password']
  await place.key('ada')
  for (const [args, says] of [
    [['--from', url, '--to', nowhere], /^--from postgres:/],
    [['--from', url, '--to', nowhere, ...file], /^--from postgres:/],
    [['--from', `sqlite:${place.database}`, '--to', url], /^--to postgres:/],
  ] as const) {
    const ended = await place.parley(['copy', ...args], { env })
    reported(ended, says)
    assert.match(ended.stderr, /nobody may log in/)
    assert.ok(!ended.stderr.includes(PASSWORD), ended.stderr)
  }
  assert.deepEqual(passwords, [`${PASSWORD}-from`, `${PASSWORD}-file`, `${PASSWORD}-to`])
  const help = await place.parley(['copy', '--help'])
  for (const name of ['--from-password-file', '--to-password-file', ...Object.keys(env)]) {
    assert.ok(help.stdout.includes(name), name)
  }
})

/** The server knows just enough of the Postgres protocol to request a password and reject it. */
async function startAskingForPasswords(t: TestContext) {
  const passwords: string[] = []
  const message = (type: string, body: Buffer) => {
    const head = Buffer.from(`${type}....`, 'latin1')
    head.writeInt32BE(body.length + 4, 1)
    return Buffer.concat([head, body])
  }
  const server = createServer((socket) => {
    let isAsked = false
    socket.on('error', () => {})
    socket.on('data', (data: Buffer) => {
      if (!isAsked) {
        isAsked = true
        socket.write(message('R', Buffer.from([0, 0, 0, 3])))
      } else if (data[0] === 0x70) {
        passwords.push(data.subarray(5, -1).toString('utf8'))
        socket.end(message('E', Buffer.from('SFATAL\0C28P01\0Mnobody may log in\0\0')))
      }
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  const { port } = server.address() as AddressInfo
  return { url: `postgres://parley@127.0.0.1:${port}/parley`, passwords }
}

test('a copy into Postgres that is killed leaves nothing, and the next one succeeds', async (t) => {
  const place = await installation(t)
  const from = `sqlite:${place.database}`
  const to = await freshDatabase(t)
  await populate(from, 1)
  await place.parley(['migrate'], { env: { DATABASE_URL: to } })
  await killAtTheLastTable(t, to, () =>
    place.spawn([process.execPath, MAIN, 'copy', '--from', from, '--to', to]),
  )
  const client = await connectPostgres(t, to)
  for (const table of ['accounts', 'jobs', 'open_jobs', 'outcomes']) {
    assert.deepEqual((await client.query(`select * from ${table} limit 1`)).rows, [], table)
  }
  await place.output(['copy', '--from', from, '--to', to])
})

test('a copy into SQLite that is killed leaves nothing, and the next one succeeds', async (t) => {
  const place = await installation(t)
  const from = await freshDatabase(t)
  const to = join(place.folder, 'new.db')
  await populate(from, 1)
  const client = await connectPostgres(t, from)
  // These rows are larger than the cache of the file, so the file will contain uncommitted pages.
  await client.query(
    `update jobs set messages = repeat('x', 1000000) where id in (select id from jobs limit 150)`,
  )
  const copy = ['copy', '--from', from, '--to', `sqlite:${to}`]
  await killAtTheLastTable(t, from, () => place.spawn([process.execPath, MAIN, ...copy]))
  assert.ok(existsSync(`${to}-journal`) && statSync(to).size > 50_000_000, 'it was in the middle')
  const db = new DatabaseSync(to)
  for (const table of ['accounts', 'jobs', 'outcomes']) {
    assert.deepEqual(db.prepare(`select * from ${table} limit 1`).all(), [], table)
  }
  db.close()
  const { code, stderr } = await place.parley(copy)
  assert.equal(code, 0, stderr)
})

/** Locks the table that a copy reaches last, waits until the copy waits for the lock, and kills the copy. */
async function killAtTheLastTable(t: TestContext, url: string, start: () => Program): Promise<void> {
  const [holder, watcher] = [await connectPostgres(t, url), await connectPostgres(t, url)]
  await holder.query('begin; lock table idempotency in access exclusive mode')
  const program = start()
  const waits = `select 1 from pg_locks where relation = 'idempotency'::regclass and not granted`
  const waiting = async () => {
    assert.equal(program.stdout + program.stderr, '')
    return (await watcher.query(waits)).rows.length
  }
  await eventually(waiting, (rows) => rows > 0)
  program.kill('SIGKILL')
  assert.deepEqual(await program.exited, { code: null, signal: 'SIGKILL' })
  await holder.query('rollback')
}

function batchOnce(caller: Caller) {
  const jobs = ['one', 'two', 'three'].map((name) => jobOf(`[[delay 2s]] ${name}`))
  return caller.send('/api/v1/messages/batches', jobs, { 'idempotency-key': 'once' })
}
