/** Tests callbacks in a SQLite file that has no row for their account. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { CALLBACK, FAILED, owed, record, take } from '../../../test/store-contract/callback-fixtures.ts'
import { now } from '../../../test/store-contract/fixtures.ts'
import { addAccounts } from '../../../test/store-contract/steps.ts'
import { folderForTest } from '../../../test/support/backup-files.ts'
import { options } from '../../../test/support/populated-database.ts'
import { change } from '../../../test/support/transfer-databases.ts'
import { openStore } from '../open.ts'

test('a callback that is due although its account was deleted has no secrets, and can be recorded', async (t) => {
  const path = join(await folderForTest(t), 'parley.db')
  const first = await openStore(`sqlite:${path}`, options('node-a', now))
  await addAccounts(first, 'acme')
  const jobId = await owed(first)
  await first.close()
  change(path, 'delete from accounts')
  const store = await openStore(`sqlite:${path}`, options('node-a', now))
  t.after(() => store.close())
  const [due] = await take(store)
  const body = due && (await store.loadCallback(due))
  assert.deepEqual([body?.view.id, body?.callback.url, body?.secrets], [jobId, CALLBACK.url, null])
  assert.equal(await store.recordCallback(record(jobId, 1, FAILED)), true)
  assert.deepEqual(await take(store), [])
})
