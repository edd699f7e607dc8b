/**
 * Tests `parley backup` under load. A server on the restored file has every job that was acknowledged before the backup began.
 * With `PARLEY_LONG=1`, the database is large and there are ten backups.
 */
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import test, { type TestContext } from 'node:test'
import { reply } from '../model-server.ts'
import { LONG } from '../support/long-form.ts'
import { type Caller, idsOf, type Reply } from './caller.ts'
import { during } from './during.ts'
import { reported } from './mistakes.ts'
import { jobsByStatus } from './rows.ts'
import { type Installation, installation, MAIN, type Program } from './server-process.ts'
import { startServer } from './started-server.ts'

const BACKUPS = LONG ? 10 : 1
const CALLERS = LONG ? 16 : 6
/** The database has this many jobs before the first backup, so that the backup takes a while. */
const JOBS = LONG ? 30_000 : 500
const HELD = 12
const MAX_TRIES = 30
const JOBS_OF_A_BATCH = 10
const PADDING = 'x'.repeat(2000)

interface Backup {
  readonly file: string
  readonly says: Readonly<Record<string, unknown>> & { readonly jobs: Readonly<Record<string, number>> }
  readonly before: readonly string[]
}

class BackupLoad {
  readonly ids: string[] = []
  #over = false
  #asking: Promise<unknown> = Promise.resolve()

  start(callers: readonly Caller[]): void {
    this.#asking = Promise.all(callers.map((caller, index) => this.#askOnAndOn(caller, `caller ${index}`)))
    // `reached` and `stop` report the error, so Node must not report it as unhandled before that.
    this.#asking.catch(() => {})
  }

  reached(jobs: number): Promise<void> {
    return during(this.#asking, () => this.ids.length >= jobs)
  }

  async stop(): Promise<void> {
    this.#over = true
    await this.#asking
  }

  acknowledge(reply: Reply): void {
    assert.ok(reply.status === 200 || reply.status === 202, `${reply.status}: ${reply.text}`)
    this.ids.push(...idsOf(reply))
  }

  async #askOnAndOn(caller: Caller, name: string): Promise<void> {
    for (let asked = 0; !this.#over; asked++) {
      const content = `${name}, request ${asked}: ${PADDING}`
      const contents = Array<string>(JOBS_OF_A_BATCH).fill(content)
      this.acknowledge(await (asked % 4 === 0 ? caller.batch(contents) : caller.single(content)))
    }
  }
}

test(`backups under load (${BACKUPS}): each holds all that was acknowledged before it began, and serves`, async (t) => {
  const settings = { jobs: { concurrency: 24 } }
  const { models, place, server, key } = await startServer(t, { models: { keep: false }, settings })
  let holding = true
  models.script = ({ text }) => (holding && text.includes('hold this') ? reply.stall() : undefined)
  const load = new BackupLoad()
  // These jobs are unfinished during each backup, until the server is killed.
  load.acknowledge(await server.caller(key).batch(Array(HELD).fill('hold this')))
  load.start(Array.from({ length: CALLERS }, () => server.caller(key)))
  await load.reached(JOBS)
  const folder = join(place.folder, 'backups')
  mkdirSync(folder)

  await leavesNothing(place, folder, 'SIGKILL')
  await leavesNothing(place, folder, 'SIGTERM')
  const backups: Backup[] = []
  for (let count = 0; count < BACKUPS; count++) {
    const backup = await backUp(place, join(folder, `${count}.db`), load)
    backups.push(backup)
    await load.reached(load.ids.length + 100)
  }
  const inUse = await place.parley(['restore', join(folder, '0.db'), '--force'])
  reported(inUse, /^A Parley server, or a copy, is using .*parley\.db\. Stop it first/)
  await load.stop()
  holding = false
  models.release()
  assert.deepEqual(await server.stop(), { code: 0, signal: null })

  for (const backup of backups) await serves(t, backup, models.baseUrl, key, load.ids)
  const took = backups.map(({ says }) => `${says.bytes} bytes in ${says.seconds} s`)
  t.diagnostic(`${load.ids.length} jobs acknowledged; ${took}`)
})

/**
 * An interrupted backup must leave no file with the requested name, and no file at all if it could clean up. If a backup ends
 * before the signal, the next one is tried.
 */
async function leavesNothing(
  place: Installation,
  folder: string,
  signal: 'SIGKILL' | 'SIGTERM',
): Promise<void> {
  const before = readdirSync(folder)
  const file = join(folder, 'interrupted.db')
  for (let tries = 1; ; tries++) {
    const program = place.spawn([process.execPath, MAIN, 'backup', file])
    await partial(folder, program)
    program.kill(signal)
    const exit = await program.exited
    // If the signal comes after the backup got its name, the backup is complete.
    const isComplete = existsSync(file)
    if (!isComplete || tries === MAX_TRIES) {
      assert.deepEqual([exit, isComplete], [{ code: null, signal }, false])
      break
    }
    assert.deepEqual(checked(file), [{ quick_check: 'ok' }])
    for (const end of ['', '-wal', '-shm']) rmSync(file + end, { force: true })
  }
  const left = readdirSync(folder).filter((name) => !before.includes(name))
  const temporary = (name: string) => /^interrupted\.db\.[0-9a-f]{8}\.partial(-journal)?$/.test(name)
  assert.deepEqual(signal === 'SIGTERM' ? left : left.filter((name) => !temporary(name)), [])
}

function checked(file: string): unknown[] {
  const db = new DatabaseSync(file, { readOnly: true })
  const rows = db.prepare('pragma quick_check').all()
  db.close()
  return rows.map((row) => ({ ...row }))
}

async function partial(folder: string, program: Program): Promise<void> {
  const before = readdirSync(folder).length
  while (readdirSync(folder).length === before) {
    assert.equal(program.stdout + program.stderr, '')
    await new Promise((resolve) => setImmediate(resolve))
  }
}

async function backUp(place: Installation, file: string, load: BackupLoad): Promise<Backup> {
  const before = [...load.ids]
  const { code, stdout, stderr } = await place.parley(['backup', file, '--json'])
  assert.deepEqual([code, stderr], [0, ''])
  const says = JSON.parse(stdout)
  assert.ok(says.jobs.assigned >= HELD, stdout)
  return { file, says, before }
}

async function serves(
  t: TestContext,
  { file, says, before }: Backup,
  upstream: string,
  key: string,
  all: readonly string[],
): Promise<void> {
  const place = await installation(t, { upstream })
  const restored = await place.parley(['restore', file, '--json'])
  assert.deepEqual([restored.code, restored.stderr], [0, ''])
  const { file: _file, seconds: _seconds, kept_aside, schema_steps, ...holds } = JSON.parse(restored.stdout)
  const { file: _itsFile, seconds: _itsSeconds, ...held } = says
  assert.deepEqual([holds, kept_aside, schema_steps], [held, null, 0])
  const jobs = Object.values(says.jobs).reduce((sum, count) => sum + count, 0)
  assert.ok(jobs >= before.length)

  const server = await place.start()
  const caller = server.caller(key)
  const asked = new Set([...before, ...all.slice(-100)])
  const known = await allEnded(caller, asked)
  assert.deepEqual(
    before.filter((id) => !known.has(id)),
    [],
    'acknowledged before the backup began, and not in it',
  )
  assert.ok(known.size <= jobs && known.size < asked.size, 'what was accepted later gives 404')
  assert.equal((await caller.single('And on it runs.')).status, 200)
  assert.deepEqual(await server.stop(), { code: 0, signal: null })
  const { completed, ...others } = jobsByStatus(place.database)
  assert.deepEqual([completed, others], [jobs + 1, {}])
}

/** Reads all IDs until their jobs have finished. Returns the IDs that exist. */
async function allEnded(caller: Caller, ids: Iterable<string>): Promise<ReadonlySet<string>> {
  const known = new Set<string>()
  const left = new Set(ids).values()
  const readOn = async () => {
    for (const id of left) {
      const { status, text } = await caller.read(id)
      if (status === 404) continue
      assert.equal(status, 200, text)
      assert.equal((await caller.ended(id)).body.data?.status, 'completed')
      known.add(id)
    }
  }
  await Promise.all(Array.from({ length: 8 }, readOn))
  return known
}
