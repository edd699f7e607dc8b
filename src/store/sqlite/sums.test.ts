/** Tests the sums of quotas after a start, mainly on files of earlier versions. */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, type TestContext, test } from 'node:test'
import { newJob, now } from '../../../test/store-contract/fixtures.ts'
import { accept, addAccounts, settle } from '../../../test/store-contract/steps.ts'
import { folderForTest } from '../../../test/support/backup-files.ts'
import { options, populate } from '../../../test/support/populated-database.ts'
import { countStored } from '../../../test/support/stored-sums.ts'
import { all, change } from '../../../test/support/transfer-databases.ts'
import { checkDatabase, openForOperator, openStore } from '../open.ts'
import { MIGRATIONS } from './migrations.ts'

/** The number of migrations in version 0.2. */
const SECOND_SCHEMA = 2

let made: Buffer
before(async () => {
  const folder = await folderForTest({ after })
  const [current, old] = [join(folder, 'parley.db'), join(folder, 'old.db')]
  await populate(`sqlite:${current}`, 5)
  const db = new DatabaseSync(old)
  for (const migration of MIGRATIONS.slice(0, SECOND_SCHEMA)) db.exec(migration)
  db.exec(`pragma user_version = ${SECOND_SCHEMA}; pragma journal_mode = wal; attach '${current}' as current`)
  const tables = db.prepare("select name from main.sqlite_schema where type = 'table'").all()
  for (const { name } of tables) {
    const columns = db.prepare(`select name from pragma_table_info('${name}', 'main')`).all()
    const names = columns.map((column) => column.name).join(', ')
    db.exec(
      `delete from main.${name}; insert into main.${name} (${names}) select ${names} from current.${name}`,
    )
  }
  db.close()
  made = readFileSync(old)
})

/** Creates a file of version 0.2 with jobs in every state: the rows of a file of this version, in the tables of the first migrations. */
async function secondVersionFile(t: TestContext): Promise<string> {
  const path = join(await folderForTest(t), 'parley.db')
  writeFileSync(path, made)
  return path
}

async function assertSums(path: string, node: string): Promise<void> {
  const store = await openStore(`sqlite:${path}`, options(node, now))
  try {
    const stored = Object.entries(await countStored(`sqlite:${path}`))
    assert.ok(stored.length > 1 && stored.some(([, { openJobs }]) => openJobs > 0))
    for (const [account, use] of stored) assert.deepEqual(await store.quotaUse(account), use, account)
  } finally {
    await store.close()
  }
}

test('the first start on a file of version 0.2 counts its jobs, and later starts read the sums', async (t) => {
  const path = await secondVersionFile(t)
  await assertSums(path, 'first')
  await assertSums(path, 'second')
  change(path, "update quota_sums set open_jobs = open_jobs + 7 where account = 'acme'")
  const store = await openStore(`sqlite:${path}`, options('third', now))
  t.after(() => store.close())
  const { openJobs = 0 } = (await countStored(`sqlite:${path}`)).acme ?? {}
  assert.equal((await store.quotaUse('acme')).openJobs, openJobs + 7, 'not counted again')
})

test('a command that migrates the file of a running older server leaves counting to the next start', async (t) => {
  const path = await secondVersionFile(t)
  const command = await openForOperator(`sqlite:${path}`)
  const [ended] = all(path, 'select id from jobs where settled_at_ms is not null limit 1')
  assert.equal(await command.deleteJob(String(ended?.id)), 'deleted')
  await command.close()
  // The older server settles a job without updating the sums.
  change(
    path,
    `insert into outcomes (seq, content, usage, receipt)
       select seq, '"answer"', '{}', '{}' from jobs where settled_at_ms is null order by seq limit 1;
     update jobs set settled_at_ms = 1, status = 'completed', turn = null, node = null
       where seq in (select seq from outcomes) and settled_at_ms is null`,
  )
  await assertSums(path, 'new')
})

test('what a server of an earlier version left reserved is corrected by the next start', async (t) => {
  const path = join(await folderForTest(t), 'parley.db')
  const store = await openStore(`sqlite:${path}`, options('node-a', now))
  await addAccounts(store, 'acme', 'other')
  const [queued, ended, held] = [newJob({ reserved: 3 }), newJob({ reserved: 5 }), newJob({ reserved: 7 })]
  await accept(store, [queued])
  await accept(store, [ended, held], { handedOff: true })
  await store.close()
  // A server of version 0.3 settles a job without updating the reserved sum.
  change(
    path,
    `update jobs set settled_at_ms = 1, status = 'completed', node = null where id = '${ended.id}'`,
  )
  change(path, "update quota_sums set open_jobs = open_jobs - 1 where account = 'acme'")
  const next = await openStore(`sqlite:${path}`, options('node-b', now))
  t.after(() => next.close())
  assert.equal((await next.quotaUse('acme')).reserved, 10)
})

test('the sums are right after a start on an empty file', async (t) => {
  const path = join(await folderForTest(t), 'parley.db')
  const store = await openStore(`sqlite:${path}`, options('node-a', now))
  const [one, other] = [newJob({ account: 'one' }), newJob({ account: 'other' })]
  await addAccounts(store, 'one', 'other')
  await accept(store, [one, other], { handedOff: true })
  await settle(store, one)
  await store.close()
  await assertSums(path, 'next')
})

test('a check of a file that an older server uses does not upgrade it', async (t) => {
  const path = await secondVersionFile(t)
  const { description, problems } = await checkDatabase(`sqlite:${path}`)
  assert.deepEqual([description, problems], [`sqlite:${path} opens, and the next start upgrades it`, []])
  assert.deepEqual(all(path, 'pragma user_version'), [{ user_version: SECOND_SCHEMA }])
})
