/** Tests what a server does while another connection, such as that of a scrub, holds the write lock of its file. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { type TestContext, test } from 'node:test'
import { acceptance, newJob, START_MS } from '../../../test/store-contract/fixtures.ts'
import { accept, addAccounts } from '../../../test/store-contract/steps.ts'
import { makeEmptyFile } from '../../../test/support/empty-file.ts'
import { StoreUnavailable } from '../store.ts'
import { openSqliteStore } from './sqlite-store.ts'

async function start(t: TestContext) {
  const folder = await mkdtemp(join(tmpdir(), 'parley-locked-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const path = join(folder, 'parley.db')
  makeEmptyFile(path)
  const onFatal = (error: Error) => assert.fail(error)
  const store = await openSqliteStore({ path, maxQueued: 10, nowMs: () => START_MS, onFatal })
  t.after(() => store.close())
  await addAccounts(store, 'acme')
  const other = new DatabaseSync(path)
  t.after(() => other.close())
  other.exec('begin immediate')
  return { store, unlock: () => other.exec('rollback') }
}

test('writes that arrived together wait for a locked file together, and scrubs for longer', async (t) => {
  const { store, unlock } = await start(t)
  const scrubbed = Promise.all([store.scrub(), store.scrub()])
  const startedMs = performance.now()
  const writes = Array.from({ length: 3 }, () => store.accept(acceptance([newJob()])))
  for (const { reason } of (await Promise.allSettled(writes)) as PromiseRejectedResult[])
    assert.ok(reason instanceof StoreUnavailable)
  assert.ok(performance.now() - startedMs < 9_000, 'one busy timeout, not one for each write')
  await assert.rejects(store.accept(acceptance([newJob()])), StoreUnavailable)
  unlock()
  await scrubbed
  await accept(store, [newJob()])
})

test('a scrub does not keep reads waiting', async (t) => {
  const { store, unlock } = await start(t)
  const scrubbed = store.scrub()
  assert.equal(await store.secrets('nobody'), null)
  unlock()
  await scrubbed
})
