/**
 * What each operation costs, in counts that are the same on every machine. A change that makes one more expensive fails
 * here. If the change is worth it, write the new counts to expected.json with `npm run counts -- --write` and explain why in
 * the commit.
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
