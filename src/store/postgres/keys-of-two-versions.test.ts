/**
 * Equal idempotency keys arrive at the same moment at a node of version 0.3 and at a node of this version. The long form has
 * 10,000 pairs.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { freshRealDatabase } from '../../../test/postgres/database.ts'
import { acceptance, newJob, now } from '../../../test/store-contract/fixtures.ts'
import { addAccounts } from '../../../test/store-contract/steps.ts'
import { LONG } from '../../../test/support/long-form.ts'
import { openNode } from '../../../test/support/postgres-nodes.ts'
import { ThirdVersionNode } from '../../../test/support/third-version-node.ts'

const PAIRS = LONG ? 10_000 : 400
const WAVE = 50

test(`${PAIRS} pairs of equal keys, one on each version: one job each, and no deadlock`, async (t) => {
  const url = await freshRealDatabase(t)
  const { store } = await openNode(url)
  const old = new ThirdVersionNode(url, 'old', 20)
  const client = new pg.Client(url)
  await client.connect()
  t.after(() => Promise.all([store.close(), old.stop(), client.end()]))
  await addAccounts(store, 'acme')
  const repeats = { old: 0, new: 0 }
  for (let from = 0; from < PAIRS; from += WAVE) {
    const keys = Array.from({ length: WAVE }, (_, index) => `k${from + index}`)
    const pairs = keys.map(async (key) => {
      const idempotency = { key, fingerprint: 'f', untilMs: now.ms + 1e9 }
      const [ofOld, ofNew] = [newJob(), newJob()]
      const accepted = await Promise.all([
        old.accept([ofOld], idempotency),
        store.accept(acceptance([ofNew], { idempotency, handedOff: true })),
      ])
      const isOldFirst = accepted[0].kind === 'accepted'
      const repeated = { kind: 'repeated', jobIds: [isOldFirst ? ofOld.id : ofNew.id] }
      assert.deepEqual(accepted, isOldFirst ? [accepted[0], repeated] : [repeated, { kind: 'accepted' }])
      repeats[isOldFirst ? 'new' : 'old'] += 1
    })
    await Promise.all(pairs)
  }
  t.diagnostic(`repeated by the old node: ${repeats.old}, by the new one: ${repeats.new}`)
  const count = async (of: string) => (await client.query(`select ${of} as count`)).rows[0].count
  assert.equal(await count('(select count(*)::int from jobs)'), PAIRS)
  assert.equal(await count('(select count(*)::int from open_jobs)'), PAIRS)
  assert.equal(
    await count('(select deadlocks::int from pg_stat_database where datname = current_database())'),
    0,
  )
})
