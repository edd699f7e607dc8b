/** Tests what cannot be copied, and what is locked while a copy runs. A copy that fails leaves nothing behind. */
import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { freshDatabase } from '../../test/postgres/database.ts'
import { ids } from '../../test/store-contract/fixtures.ts'
import { addAccounts } from '../../test/store-contract/steps.ts'
import { options } from '../../test/support/populated-database.ts'
import { openNode } from '../../test/support/postgres-nodes.ts'
import {
  all,
  change,
  connect,
  copyAll,
  firstJob,
  newFile,
  populated,
  refused,
  target,
} from '../../test/support/transfer-databases.ts'
import { openStore, openTransferSource } from './open.ts'

test('a database that is served is neither copied nor filled', async (t) => {
  const { file, population } = await populated(t)
  const clock = { ms: population.nowMs }
  const path = await newFile(t)
  const server = await openStore(`sqlite:${path}`, options('server', clock))
  await refused(openTransferSource(`sqlite:${path}`), /server, or another copy, is using .*SIGTERM/)
  await refused(target(`sqlite:${path}`, population), /server, or another copy, is using .*SIGTERM/)
  await server.close()

  const url = await freshDatabase(t)
  const node = await openNode(url)
  t.after(() => node.store.close())
  await node.store.renew(node.name, 30_000)
  await refused(openTransferSource(url), /1 Parley server uses this database.*SIGTERM.* in (29|30) s/)
  await refused(target(url, population), /1 Parley server uses this database.*SIGTERM/)
  await node.store.renew(node.name, -1)
  // The node is dead, because its lease has expired, and no longer prevents a copy.
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
  await refused(openStore(url, options('server', clock)), /in progress\. Wait/)
  await refused(target(url, population), /in progress\. Wait/)
  await refused(openTransferSource(url), /in progress\. Wait/)
  await toPostgres.close()

  const source = await openTransferSource(`sqlite:${file}`)
  await refused(openStore(`sqlite:${file}`, options('server', clock)), /Another Parley server is using/)
  await source.close()
  const fromPostgres = await openTransferSource(url)
  await refused(openStore(url, options('server', clock)), /in progress\. Wait/)
  await fromPostgres.close()
})

test('a target that is not empty is rejected, and stays as it is', async (t) => {
  const { file, population } = await populated(t)
  const clock = { ms: population.nowMs }
  for (const url of [`sqlite:${await newFile(t)}`, await freshDatabase(t)]) {
    const store = await openStore(url, options('server', clock))
    await addAccounts(store, 'mine')
    await store.close()
    await refused(copyAll(`sqlite:${file}`, url, population), /holds accounts or jobs already.*Name one/)
    const again = await openStore(url, options('server', clock))
    assert.deepEqual(ids(await again.listKeys()), ['key of mine'])
    await again.close()
  }
})

test('a source that does not exist is rejected, and is not created', async (t) => {
  const missing = await newFile(t)
  await refused(openTransferSource(`sqlite:${missing}`), /There is no file/)
  const other = await newFile(t)
  new DatabaseSync(other).exec('create table theirs (a); pragma user_version = 0')
  await refused(openTransferSource(`sqlite:${other}`), /not a database of Parley/)
  assert.deepEqual(all(other, 'select name from sqlite_schema'), [{ name: 'theirs' }])
  const url = await freshDatabase(t)
  await refused(openTransferSource(url), /no tables of Parley/)
  const { rows } = await (await connect(t, url)).query(`select to_regclass('jobs') as jobs`)
  assert.deepEqual(rows, [{ jobs: null }])
})

test('a copy that fails in the middle leaves the target empty, names the cause, and can be run again', async (t) => {
  const { file, population } = await populated(t)
  const newest = 'select id, messages, seq from jobs join requests using (seq) order by id desc limit 1'
  const [last] = all(file, newest)
  change(file, `update requests set messages = char(0) where seq = ${last?.seq}`)
  const url = await freshDatabase(t)
  await refused(
    copyAll(`sqlite:${file}`, url, population),
    /The copy stopped at jobs, after \d\d+ jobs: Postgres reports: invalid byte sequence.*\. Nothing of it stays/,
  )
  const path = await newFile(t)
  const half = await target(`sqlite:${path}`, population)
  const source = await openTransferSource(`sqlite:${file}`)
  for await (const jobs of source.read('jobs', 0)) await half.add('jobs', jobs)
  await refused(
    half.add('jobs', [await firstJob(source)]),
    /SQLite reports: UNIQUE constraint failed: jobs\.id/,
  )
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
