/** Tests that the store knows the length of the queue without counting the queued jobs. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { acceptance, newJob, now, several } from '../../../test/store-contract/fixtures.ts'
import { accept, addAccounts } from '../../../test/store-contract/steps.ts'
import { folderForTest } from '../../../test/support/backup-files.ts'
import { options } from '../../../test/support/populated-database.ts'
import { change } from '../../../test/support/transfer-databases.ts'
import { openStore } from '../open.ts'
import type { Store } from '../store.ts'

const JOBS = 5

async function fileWithJobs(t: TestContext): Promise<string> {
  const path = join(await folderForTest(t), 'parley.db')
  const store = await openStore(`sqlite:${path}`, options('first', now))
  await addAccounts(store, 'acme')
  await accept(store, several(JOBS))
  await accept(store, [newJob()], { handedOff: true })
  await store.close()
  return path
}

async function lengthOf(store: Store): Promise<number[]> {
  const { waiting, assigned } = await store.depth()
  return [waiting, assigned]
}

test('a start reads how many jobs are open from the sums by account, and not from the queue', async (t) => {
  const path = await fileWithJobs(t)
  change(path, "update quota_sums set open_jobs = open_jobs + 7 where account = 'acme'")
  const store = await openStore(`sqlite:${path}`, options('second', now))
  t.after(() => store.close())
  assert.deepEqual(await lengthOf(store), [JOBS + 7, 1])
})

test('jobs that are accepted and cancelled in the transaction that learns of cancelled ones are counted', async (t) => {
  const path = await fileWithJobs(t)
  const store = await openStore(`sqlite:${path}`, options('second', now))
  t.after(() => store.close())
  const [early, late] = [newJob(), newJob()]
  const [, cancelled] = await Promise.all([
    store.accept(acceptance([early, newJob()])),
    store.cancelJob(early.id, now.ms),
    store.takeCancelled('second'),
    store.accept(acceptance([late])),
  ])
  assert.equal(cancelled, 'cancelled')
  assert.deepEqual(await lengthOf(store), [JOBS + 2, 1])
})
