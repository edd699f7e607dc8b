/** Several nodes keep cost caps together, while jobs are settled and sums are folded. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { freshDatabase } from '../../../test/postgres/database.ts'
import { acceptance, newJob, now, settlement, USAGE } from '../../../test/store-contract/fixtures.ts'
import { openScene } from '../../../test/store-contract/postgres-scene.ts'
import { addAccounts } from '../../../test/store-contract/steps.ts'
import { foldQuotas, foldUsage } from './quotas.ts'

test('three nodes that accept, repeat keys, settle and fold at the same time exceed no cap, and fill it', async (t) => {
  await fillCap(t, await freshDatabase(t))
})

test('so do nodes whose role has another isolation level', async (t) => {
  const url = await freshDatabase(t)
  await fillCap(t, `${url}${encodeURIComponent(' -c default_transaction_isolation=repeatable\\ read')}`)
})

async function fillCap(t: TestContext, url: string): Promise<void> {
  const { database, ...scene } = await openScene(t, url)
  const nodes = await Promise.all([scene.open(), scene.open(), scene.open()] as const)
  const [first] = nodes
  await addAccounts(first.store, 'acme', 'other')
  const [costCap, reserved, cost] = [3000, 10, 7]
  const used = async (account: string) => {
    const [sums] = await first.store.listUsage({ account, limit: 1 })
    const open = await first.store.quotaUse(account)
    return { cost: sums?.cost ?? 0, reserved: open.reserved ?? 0, openJobs: open.openJobs ?? 0 }
  }
  let isOver = false
  const folding = (async () => {
    while (!isOver) {
      await foldUsage(database)
      await foldQuotas(database)
    }
  })()
  let accepted = 0
  const create = async (at: number) => {
    const { store, name } = nodes[at % 3] ?? first
    const account = at % 5 === 0 ? 'other' : 'acme'
    const job = newJob({ account, reserved })
    const key = at % 4 === 0 ? { key: `key ${at}`, fingerprint: 'a', untilMs: now.ms + 1000 } : null
    const asked = { ...acceptance([job], { handedOff: true, node: name }), node: name, costCap }
    const { kind } = await store.accept({ ...asked, idempotency: key })
    if (kind !== 'accepted') return
    if (account === 'acme') accepted += 1
    if (at % 2 === 0) return
    const end = settlement({ jobId: job.id, attempt: 1 }, { node: name, usage: { ...USAGE, cost } })
    assert.equal(await store.settle(end), 'settled')
  }
  for (let step = 0; step < 4; step++) {
    await Promise.all(Array.from({ length: 300 }, (_, at) => create(step * 300 + at)))
    const { cost: settled, reserved: open } = await used('acme')
    assert.ok(settled + open <= costCap, `${settled} + ${open}`)
  }
  isOver = true
  await folding
  const { cost: settled, reserved: open, openJobs } = await used('acme')
  assert.ok(settled + open > costCap - reserved, `${settled} + ${open} of ${costCap}, ${accepted} jobs`)
  assert.equal(open, openJobs * reserved)
  assert.equal(settled, (accepted - openJobs) * cost)
}
