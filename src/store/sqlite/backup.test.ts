import assert from 'node:assert/strict'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, type TestContext, test } from 'node:test'
import { addAccounts, claimNext } from '../../../test/store-contract/steps.ts'
import { contentsOf, folderForTest, quietly } from '../../../test/support/backup-files.ts'
import { options, populate } from '../../../test/support/populated-database.ts'
import { change, refused } from '../../../test/support/transfer-databases.ts'
import { openStore } from '../open.ts'
import { backUpFile } from './backup.ts'
import { migrateFile } from './schema.ts'

let original: Buffer
let nowMs: number
before(async () => {
  const file = join(await folderForTest({ after }), 'parley.db')
  nowMs = (await populate(`sqlite:${file}`, 1)).nowMs
  original = readFileSync(file)
})

/** Returns a folder with `parley.db`, which holds jobs in every state, and the path of a backup. */
async function populatedFolder(t: TestContext) {
  const folder = await folderForTest(t)
  const [file, target] = [join(folder, 'parley.db'), join(folder, 'copy.db')]
  writeFileSync(file, original)
  return { folder, file, target }
}

test('a backup is one private file with every row, and what is only in the write-ahead log', async (t) => {
  const { folder, file, target } = await populatedFolder(t)
  const store = await openStore(`sqlite:${file}`, options('now', { ms: nowMs }))
  t.after(() => store.close())
  await addAccounts(store, 'late')
  const claimed = await claimNext(store, 'now', 3, nowMs)
  assert.ok(claimed.length === 3 && statSync(`${file}-wal`).size > 0)

  const seen: number[] = []
  const summary = await backUpFile(file, target, quietly({ onProgress: (b) => seen.push(b) }))
  assert.deepEqual(contentsOf(target), contentsOf(file))
  assert.equal(statSync(target).mode & 0o777, 0o600)
  assert.deepEqual(
    readdirSync(folder).filter((name) => name.startsWith('copy')),
    ['copy.db'],
  )

  const rows = contentsOf(file) as Record<string, Record<string, unknown>[]>
  const jobs = Object.groupBy(rows.jobs ?? [], ({ status }) => String(status))
  assert.deepEqual(
    summary.jobs,
    Object.fromEntries(['pending', 'assigned', 'completed', 'failed'].map((s) => [s, jobs[s]?.length ?? 0])),
  )
  assert.deepEqual([summary.accounts, summary.keys], [4, 7])
  assert.equal(summary.callbacksOwed, rows.callbacks?.filter((row) => row.due_at_ms !== null).length)
  assert.equal(summary.newestJobAtMs, Math.max(...(rows.jobs ?? []).map((row) => Number(row.created_at_ms))))
  assert.equal(summary.bytes, statSync(target).size)
  assert.equal(summary.schemaSteps, 0)
  for (const count of [...Object.values(summary.jobs), summary.callbacksOwed]) assert.ok(count > 0)
})

test('what is deleted is not in a backup, though the file still holds its bytes', async (t) => {
  const folder = await folderForTest(t)
  const [file, target] = [join(folder, 'parley.db'), join(folder, 'copy.db')]
  migrateFile(file)
  const db = new DatabaseSync(file)
  t.after(() => db.close())
  const secret = 'an expired conversation '.repeat(5000)
  db.prepare('insert into requests (seq, messages, response_format) values (1, ?, ?)').run(secret, 'text')
  db.exec('delete from requests; pragma wal_checkpoint(truncate)')
  assert.ok(readFileSync(file).includes('an expired conversation'))
  await backUpFile(file, target, quietly())
  assert.ok(!readFileSync(target).includes('an expired conversation'))
})

test('a backup that fails reports why, and leaves nothing behind', async (t) => {
  const folder = await folderForTest(t)
  const at = (name: string) => join(folder, name)
  migrateFile(at('parley.db'))
  mkdirSync(at('folder'))
  symlinkSync(at('folder'), at('other-way'))
  symlinkSync(at('parley.db'), at('link.db'))
  writeFileSync(at('there'), 'precious')
  writeFileSync(at('text.db'), 'no database at all')
  writeFileSync(at('empty.db'), '')
  change(at('newer.db'), 'pragma user_version = 1000')
  change(at('foreign.db'), 'create table t (a); pragma user_version = 1')
  const found = readdirSync(folder).sort()
  const mistakes: readonly [from: string, to: string, force: boolean, says: RegExp][] = [
    ['parley.db', 'none/copy.db', true, /There is no folder .*none\. Make it first/],
    ['parley.db', 'folder', true, /is a folder\. Name a file in it/],
    ['parley.db', 'link.db', true, /not a regular file/],
    ['parley.db', 'parley.db', true, /belongs to the database itself/],
    ['link.db', 'parley.db-wal', true, /belongs to the database itself/],
    ['parley.db', 'there', false, /already exists\. .*--force/],
    ['none.db', 'copy.db', true, /There is no database .*none\.db/],
    ['text.db', 'there', true, /not a database of Parley/],
    ['empty.db', 'there', true, /not a database of Parley/],
    ['foreign.db', 'there', true, /not a database of Parley/],
    ['newer.db', 'there', true, /newer Parley \(schema 1000/],
  ]
  for (const [from, to, force, says] of mistakes) {
    await refused(backUpFile(at(from), at(to), quietly({ force })), says)
  }
  assert.deepEqual(readdirSync(folder).sort(), found)
  assert.equal(readFileSync(at('there'), 'utf8'), 'precious')
  await backUpFile(at('parley.db'), at('there'), quietly({ force: true }))
  assert.deepEqual(contentsOf(at('there')), contentsOf(at('parley.db')))
})

test('a damaged database is reported, and replaces no good backup', async (t) => {
  const { file, target } = await populatedFolder(t)
  await backUpFile(file, target, quietly())
  const good = readFileSync(target)
  const bytes = readFileSync(file)
  bytes.fill(0xa5, 4096 * 3, 4096 * 40)
  writeFileSync(file, bytes)
  await assert.rejects(backUpFile(file, target, quietly({ force: true })), /is damaged: /)
  assert.ok(readFileSync(target).equals(good))
})

test('an interrupted backup leaves nothing behind', async (t) => {
  const folder = await folderForTest(t)
  const [file, target] = [join(folder, 'parley.db'), join(folder, 'copy.db')]
  migrateFile(file)
  const controller = new AbortController()
  const backup = backUpFile(file, target, quietly({ signal: controller.signal }))
  // The temporary file exists by now.
  await new Promise((resolve) => setImmediate(resolve))
  assert.equal(readdirSync(folder).filter((name) => name.endsWith('.partial')).length, 1)
  controller.abort()
  await assert.rejects(backup)
  assert.ok(!existsSync(target))
  assert.deepEqual(
    readdirSync(folder).filter((name) => name.startsWith('copy')),
    [],
  )
})
