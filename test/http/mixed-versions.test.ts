/** Tests that newer fields of a job are refused while a node of an earlier version runs, because it would ignore them. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { onEachStore, storeName } from '../on-each-store.ts'
import { eventually } from '../support/eventually.ts'
import { shareStage } from './caller.ts'
import { completed, refused } from './expect.ts'

const FIELDS = { options: { seed: 1 }, complete_within: 60, priority: 'low', metadata: { n: '1' } }

onEachStore(async () => {
  // Only nodes on Postgres share a database.
  if (storeName() !== 'Postgres') return
  const { addEarlierNode } = await import('./earlier-node.ts')
  const begin = await shareStage()

  for (const [field, value] of Object.entries(FIELDS)) {
    test(`while a node of an earlier version is alive, ${field} is refused, and other jobs are accepted`, async (t) => {
      const { parley, caller } = await begin(t)
      const untilStatus = (status: number) =>
        eventually(
          () => caller.create({ [field]: value }),
          (answer) => answer.status === status,
          { signal: t.signal },
        )
      const endNode = await addEarlierNode(t, parley)
      const mixed = await untilStatus(503)
      assert.equal(mixed.headers.get('retry-after'), '5')
      const { message, details } = refused(mixed, 503)
      assert.equal(message, 'A node of an earlier version is still running.')
      assert.ok(details?.startsWith(`${field}: that node would ignore it`))
      completed(await caller.create())
      await endNode()
      completed(await untilStatus(200))
    })
  }
})
