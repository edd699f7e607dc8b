/**
 * Tests the plans of the statements that find queued jobs in SQLite: what they read must not depend on the length of other
 * queues.
 */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { now } from '../../../test/store-contract/fixtures.ts'
import { folderForTest } from '../../../test/support/backup-files.ts'
import { options } from '../../../test/support/populated-database.ts'
import { openStore } from '../open.ts'
import { LANE, QUEUED, QUEUED_SUSPECTS, SUSPECTS, WALK } from './claim.ts'
import { FIND, FIND_OF_ACCOUNT } from './overdue.ts'

/** The index that each statement must use, and its conditions on the index. */
const EXPECTED = [
  ['a walk', WALK, /jobs_by_route \(route=\? AND \(turn,id\)>\(\?,\?\)\)/],
  ['the lane of an account', LANE, /jobs_in_lanes \(account=\? AND route=\?/],
  ['suspects', SUSPECTS, /jobs_suspected \(deaths=\?/],
  ['queued routes', QUEUED, /jobs_by_route \(route>\?/],
  ['queued suspects', QUEUED_SUSPECTS, /jobs_suspected/],
  ['overdue jobs', FIND, /jobs USING COVERING INDEX jobs_by_route \(route=\?/],
  [
    'overdue jobs of an account',
    FIND_OF_ACCOUNT,
    /jobs USING COVERING INDEX jobs_in_lanes \(account=\? AND route=\?/,
  ],
] as const

test('a claim looks up its jobs in an index, in order', async (t) => {
  const path = join(await folderForTest(t), 'parley.db')
  await (await openStore(`sqlite:${path}`, options('node-a', now))).close()
  const db = new DatabaseSync(path)
  t.after(() => db.close())
  for (const [name, statement, index] of EXPECTED) {
    const steps = db.prepare(`explain query plan ${statement}`).all()
    const plan = steps.map(({ detail }) => String(detail)).join('\n')
    assert.match(plan, index, name)
    assert.doesNotMatch(plan, /TEMP B-TREE|SCAN jobs(?! USING)/, `${name}: ${plan}`)
  }
})
