/** What every store promises of the audit log. */
import assert from 'node:assert/strict'
import type { NewAuditEntry } from '../../src/store/audit-store.ts'
import { newJob, now, type On } from './fixtures.ts'

export function auditTests(on: On): void {
  const act = (over: Partial<NewAuditEntry> = {}): NewAuditEntry => ({
    // As jobs' ids are: in the order of time.
    id: newJob().id,
    atMs: now.ms,
    who: 'root@db1 (command line)',
    what: 'set the tier of an account',
    account: 'acme',
    target: null,
    detailsJson: '{"tier":"user_max"}',
    ...over,
  })

  on('keeps each act, and what came of it where that is known', async (store) => {
    const [ended, cutOff] = [act(), act({ account: null, target: 'key_1', who: 'zoë "z" from 10.0.0.7' })]
    await store.addAuditEntry(ended)
    now.ms += 1
    await store.addAuditEntry(cutOff)
    await store.endAuditEntry(ended.id, 'done')
    assert.deepEqual(await store.listAuditEntries({ limit: 10 }), [
      { ...cutOff, outcome: null },
      { ...ended, outcome: 'done' },
    ])
  })

  on('finds acts newest first, a page at a time, of all accounts or of one', async (store) => {
    const acts: NewAuditEntry[] = []
    for (const account of ['acme', 'other', 'acme', null]) {
      now.ms += 1
      const one = act({ account })
      acts.push(one)
      await store.addAuditEntry(one)
    }
    const [first, second, third, fourth] = acts.map(({ id }) => id)
    const found = async (over: { account?: string; beforeEntryId?: string; limit?: number }) =>
      (await store.listAuditEntries({ limit: 10, ...over })).map(({ id }) => id)
    assert.deepEqual(await found({}), [fourth, third, second, first])
    assert.deepEqual(await found({ account: 'acme' }), [third, first])
    assert.deepEqual(await found({ limit: 1, ...(third && { beforeEntryId: third }) }), [second])
    assert.deepEqual(await found({ account: 'nobody' }), [])
  })
}
