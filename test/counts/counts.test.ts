/**
 * Checks what each operation costs, in counts that hardly depend on the machine. The test fails if an operation becomes more
 * expensive. If one becomes cheaper, the new counts should be saved.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { databaseUrl, onEachStore, storeName } from '../on-each-store.ts'
import { Counting, NOW_MS } from './counting.ts'
import { changesOf, readExpected, WHAT_TO_DO_ABOUT_FALLS, WHAT_TO_DO_ABOUT_RISES } from './expected.ts'

onEachStore(() => {
  test('no operation costs more than it is expected to cost', async (t) => {
    const counting = await Counting.start(t, (folder) => databaseUrl(t, folder, NOW_MS))
    // On Postgres a node polls every second of real time, and polling allocates.
    const comparesBytes = storeName() === 'SQLite'
    const counted = await counting.all(comparesBytes)
    const { rises, falls } = changesOf((await readExpected())[storeName()], counted, comparesBytes)
    if (falls.length > 0) t.diagnostic(`${falls.join('\n')}\n${WHAT_TO_DO_ABOUT_FALLS}`)
    assert.ok(rises.length === 0, `${rises.join('\n')}\n${WHAT_TO_DO_ABOUT_RISES}`)
  })
})
