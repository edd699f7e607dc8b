/**
 * What each operation costs, in counts that are the same on every machine. A change that makes one dearer fails here. If that is
 * worth it, `npm run counts -- --write` writes the new counts to expected.json, and the change says why.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { databaseUrl, onEachStore, storeName } from '../on-each-store.ts'
import { Counting, NOW_MS } from './counting.ts'
import { changesOf, readExpected } from './expected.ts'

onEachStore(() => {
  test('each operation costs what it is expected to cost', async (t) => {
    const counting = await Counting.start(t, (folder) => databaseUrl(t, folder, NOW_MS))
    const counted = await counting.all()
    // On Postgres a node polls every second of real time, which allocates.
    const comparesBytes = storeName() === 'SQLite'
    assert.deepEqual(changesOf((await readExpected())[storeName()], counted, comparesBytes), [])
  })
})
