/** What every store guarantees about the audit log. */
import assert from 'node:assert/strict'
import type { NewAuditEntry } from '../../src/store/audit-store.ts'
import { acceptance, newJob, now, type On } from './fixtures.ts'

export function auditTests(on: On): void {
  const newEntry = (over: Partial<NewAuditEntry> = {}): NewAuditEntry => ({
    // Like job IDs, they are in chronological order.
    id: newJob().id,
    atMs: now.ms,
    who: 'root@db1 (command line)',
    what: 'set the tier of an account',
    account: 'acme',
    target: null,
    detailsJson: '{"tier":"user_max"}',
    ...over,
  })

  on('stores each entry, and its outcome once that is known', async (store) => {
    const ended = newEntry()
    const interrupted = newEntry({ account: null, target: 'key_1', who: 'zoë "z" from 10.0.0.7' })
    await store.addAuditEntry(ended)
    now.ms += 1
    await store.addAuditEntry(interrupted)
    await store.endAuditEntry(ended.id, 'done')
    assert.deepEqual(await store.listAuditEntries({ limit: 10 }), [
      { ...interrupted, outcome: null },
      { ...ended, outcome: 'done' },
    ])
  })

  on('an entry names the account of its job or key, and none if there is no such job', async (store) => {
    const job = newJob({ account: 'other' })
    await store.accept(acceptance([job]))
    const secret = { hash: 'h', secret: 'whsec_1' }
    const times = { createdAtMs: now.ms, expiresAtMs: null }
    await store.createKey({ id: 'key_1', account: 'keyed', tier: 'user_go', ...secret, ...times })
    for (const target of [job.id, newJob().id, 'not an id']) {
      await store.addAuditEntry(newEntry({ target, account: { ofJob: target } }))
      now.ms += 1
    }
    await store.addAuditEntry(newEntry({ target: 'key_1', account: { ofKey: 'key_1' } }))
    const entries = await store.listAuditEntries({ limit: 10 })
    assert.deepEqual(
      entries.map(({ account }) => account),
      ['keyed', null, null, 'other'],
    )
    assert.equal((await store.listAuditEntries({ account: 'other', limit: 10 })).length, 1)
  })

  on('lists entries newest first, a page at a time, of all accounts or of one', async (store) => {
    const entries: NewAuditEntry[] = []
    for (const account of ['acme', 'other', 'acme', null]) {
      now.ms += 1
      const entry = newEntry({ account })
      entries.push(entry)
      await store.addAuditEntry(entry)
    }
    const [first, second, third, fourth] = entries.map(({ id }) => id)
    const found = async (over: { account?: string; beforeEntryId?: string; limit?: number }) =>
      (await store.listAuditEntries({ limit: 10, ...over })).map(({ id }) => id)
    assert.deepEqual(await found({}), [fourth, third, second, first])
    assert.deepEqual(await found({ account: 'acme' }), [third, first])
    assert.deepEqual(await found({ limit: 1, ...(third && { beforeEntryId: third }) }), [second])
    assert.deepEqual(await found({ account: 'nobody' }), [])
  })
}
