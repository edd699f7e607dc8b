/** A copy from one Postgres to another includes usage that is not folded yet, the audit log, and settings of operators. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { freshDatabase } from '../../../test/postgres/database.ts'
import { expiry, newJob, now, USAGE } from '../../../test/store-contract/fixtures.ts'
import { addAccounts, addEnded, addQueued } from '../../../test/store-contract/steps.ts'
import { openNode } from '../../../test/support/postgres-nodes.ts'
import { transferDatabase } from '../transfer.ts'
import { openPostgresSource, openPostgresTarget } from './transfer.ts'

test('usage arrives once, folded or not, and so do audit entries, caps and suspensions', async (t) => {
  const [from, to] = [await freshDatabase(t), await freshDatabase(t)]
  const { store } = await openNode(from)
  await addAccounts(store, 'acme')
  await store.setCaps('acme', { monthlyJobs: 7, monthlyTokens: 'none', openJobs: 7, storedBytes: 'none' })
  await store.suspend('acme', 8)
  const entry = { who: 'root', what: 'set caps', account: 'acme', target: null, detailsJson: '{}' }
  await store.addAuditEntry({ id: newJob().id, atMs: now.ms, ...entry })
  const end = (model: string) =>
    addEnded(store, { model }, { model, usage: { ...USAGE, input_tokens: 2 ** 40 } })
  await end('gpt-5')
  await end('gpt-5-mini')
  await store.expire(expiry())
  await end('gpt-5')
  const waiting = await addQueued(store)
  await store.cancelJob(waiting.id, now.ms)
  const seen = async (at: typeof store) => ({
    usage: await at.listUsage({ limit: 10 }),
    used: await at.used('acme', '2026-01'),
    entries: await at.listAuditEntries({ limit: 10 }),
    key: await at.findKey('hash of acme'),
  })
  const there = await seen(store)
  await store.close()

  const source = await openPostgresSource(from)
  const target = await openPostgresTarget(to, { expiry: expiry(), onNote: () => {} })
  const counts = await transferDatabase(source, target, expiry(), () => {})
  await Promise.all([source.close(), target.close()])
  assert.deepEqual([counts.usage, counts.auditEntries], [2, 1])

  const { store: copy } = await openNode(to)
  t.after(() => copy.close())
  assert.deepEqual(await seen(copy), there)
})
