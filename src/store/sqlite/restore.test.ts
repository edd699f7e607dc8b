import assert from 'node:assert/strict'
import { chmodSync, copyFileSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, type TestContext, test } from 'node:test'
import { claimAll } from '../../../test/store-contract/steps.ts'
import { contentsOf, folderForTest, quietly } from '../../../test/support/backup-files.ts'
import { options, populate } from '../../../test/support/populated-database.ts'
import { countStored } from '../../../test/support/stored-sums.ts'
import { refused } from '../../../test/support/transfer-databases.ts'
import { openStore } from '../open.ts'
import { backUpFile, type RestoreOptions, restoreFile } from './backup.ts'
import { lockForServing } from './opening.ts'
import { migrateFile } from './schema.ts'

const NOW_MS = Date.UTC(2026, 0, 2, 3, 4, 5, 6)
const ASIDE = 'parley.db.replaced-2026-01-02T03-04-05.006Z'

let made: Buffer
before(async () => {
  const folder = await folderForTest({ after })
  const [file, target] = [join(folder, 'parley.db'), join(folder, 'backup.db')]
  await populate(`sqlite:${file}`, 1)
  await backUpFile(file, target, quietly())
  made = readFileSync(target)
})

test('a server runs on a backup restored into a folder that did not exist', async (t) => {
  const { folder, backup } = await backupForTest(t)
  const place = join(folder, 'new', 'folder', 'parley.db')
  const { summary, keptAside } = await restoreFile(backup, place, given())
  assert.equal(keptAside, null)
  assert.deepEqual(contentsOf(place), contentsOf(backup))
  assert.equal(statSync(place).mode & 0o777, 0o600)
  assert.deepEqual(readdirSync(join(folder, 'new', 'folder')).sort(), ['parley.db', 'parley.db.lock'])

  const store = await openStore(`sqlite:${place}`, options('next', { ms: NOW_MS }))
  const again = await store.rescue('next', NOW_MS)
  assert.equal(again, summary.jobs.assigned - returned(backup), 'what was in hand waits again')
  for (const [account, use] of Object.entries(await countStored(`sqlite:${place}`))) {
    assert.deepEqual(await store.quotaUse(account), use, account)
  }
  const waiting = summary.jobs.pending + summary.jobs.assigned
  assert.equal((await claimAll(store, 'next', NOW_MS)).length, waiting)
  await store.close()
})

test('a database that is not empty is replaced with --force only, and kept with its log', async (t) => {
  const { folder, backup, place } = await backupForTest(t)
  const old = leaveLog(place)
  await assert.rejects(restoreFile(backup, place, given()), /holds accounts or jobs.*--force/)
  assert.deepEqual(contentsOf(place), old)

  const { keptAside } = await restoreFile(backup, place, given({ force: true }))
  assert.equal(keptAside, join(folder, ASIDE))
  assert.deepEqual(contentsOf(place), contentsOf(backup), 'nothing of the old log has got into it')
  assert.deepEqual(contentsOf(join(folder, ASIDE)), old)
})

test('an empty database is replaced without --force', async (t) => {
  const { backup, place } = await backupForTest(t)
  migrateFile(place)
  await restoreFile(backup, place, given())
  assert.deepEqual(contentsOf(place), contentsOf(backup))
})

for (const [lost, lose] of [
  ['empty', (path: string) => writeFileSync(path, '')],
  ['missing', (path: string) => rmSync(path)],
] as const) {
  test(`the log of a database that is ${lost} does not get into the restored one`, async (t) => {
    const { backup, place } = await backupForTest(t)
    leaveLog(place)
    lose(place)
    const log = readFileSync(`${place}-wal`)
    await assert.rejects(restoreFile(backup, place, given()), /--force/)
    const { keptAside } = await restoreFile(backup, place, given({ force: true }))
    assert.deepEqual(contentsOf(place), contentsOf(backup))
    assert.ok(readFileSync(`${keptAside}-wal`).equals(log))
  })
}

test('the copy of a data folder is restored with what is in its log', async (t) => {
  const folder = await folderForTest(t)
  const copied = join(folder, 'copied.db')
  const all = leaveLog(copied)
  const place = join(folder, 'parley.db')
  await restoreFile(copied, place, given())
  assert.deepEqual(contentsOf(place), all)
})

test('nothing is replaced while a server runs', async (t) => {
  const { backup, place } = await backupForTest(t)
  const lock = lockForServing(place)
  t.after(() => lock.close())
  await assert.rejects(
    restoreFile(backup, place, given({ force: true })),
    /A Parley server, or a copy, is using .*parley\.db\. Stop it first/,
  )
})

test('what is not a whole backup of a known schema replaces nothing', async (t) => {
  const { folder, backup } = await backupForTest(t)
  const at = (name: string) => join(folder, name)
  const bytes = readFileSync(backup)
  writeFileSync(at('half.db'), bytes.subarray(0, bytes.length / 2))
  writeFileSync(at('text.db'), 'no database at all, though it is long enough'.repeat(99))
  const holed = Buffer.from(bytes)
  holed.fill(0xa5, 4096 * 30, 4096 * 34)
  writeFileSync(at('holed.db'), holed)
  copyFileSync(backup, at('newer.db'))
  alter(at('newer.db'), 'pragma user_version = 1000')
  // One row violates a constraint of its table. No statement except the integrity check notices that.
  copyFileSync(backup, at('rule.db'))
  alter(
    at('rule.db'),
    `pragma writable_schema = on;
     update sqlite_schema set sql = replace(sql, 'callback text', 'callback text not null') where name = 'requests'`,
  )
  const place = at('parley.db')
  const old = leaveLog(place)
  const there = readdirSync(folder).concat('parley.db.lock').sort()
  const mistakes = {
    'none.db': /There is no file .*none\.db/,
    'parley.db': /is the database itself/,
    'half.db': /is damaged: /,
    'holed.db': /is damaged: /,
    'rule.db': /is damaged: NULL value in requests\.callback/,
    'text.db': /not a database of Parley/,
    'newer.db': /newer Parley \(schema 1000/,
  }
  for (const [name, says] of Object.entries(mistakes)) {
    await refused(restoreFile(at(name), place, given({ force: true })), says)
  }
  assert.deepEqual(readdirSync(folder).sort(), there)
  assert.deepEqual(contentsOf(place), old)
})

/** Returns a folder with a backup, and the path at which the tests restore it. */
async function backupForTest(t: TestContext) {
  const folder = await folderForTest(t)
  const backup = join(folder, 'backup.db')
  writeFileSync(backup, made)
  // A file that was copied from another machine often has these permissions.
  chmodSync(backup, 0o644)
  return { folder, backup, place: join(folder, 'parley.db') }
}

function given(over: Partial<RestoreOptions> = {}): RestoreOptions {
  return { ...quietly(), nowMs: NOW_MS, ...over }
}

/** Creates a database as a killed server leaves it, with the last rows only in the write-ahead log. Returns its contents. */
function leaveLog(path: string): ReturnType<typeof contentsOf> {
  const living = `${path}.living`
  migrateFile(living)
  const db = new DatabaseSync(living)
  db.exec(`insert into accounts (name, tier, secret) values ('old', 'user_go', 's')`)
  for (const end of ['', '-wal', '-shm']) copyFileSync(living + end, path + end)
  const contents = contentsOf(living)
  db.exec('pragma journal_mode = delete')
  db.close()
  return contents
}

function alter(file: string, sql: string): void {
  const db = new DatabaseSync(file, { defensive: false })
  db.exec(sql)
  db.close()
}

/**
 * Returns how many jobs have the status `assigned` although no node holds them, because they were released or their node
 * crashed.
 */
function returned(file: string): number {
  const rows = contentsOf(file).jobs as { status: string; node: string | null }[]
  return rows.filter(({ status, node }) => status === 'assigned' && node === null).length
}
