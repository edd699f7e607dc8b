/** Tests what every store guarantees about accounts, keys, admin tokens and the audit log. */
import assert from 'node:assert/strict'
import type { Job } from '../../src/job/job.ts'
import type { NewKey } from '../../src/store/account-store.ts'
import type { NewAuditEntry } from '../../src/store/operator-store.ts'
import { ids, NO_CAPS, newJob, now, type On, START_MS } from './fixtures.ts'
import { largeJob } from './quotas.ts'
import { accept, addAccounts, addQueued, settle } from './steps.ts'

const STANDING = { suspendedAtMs: null, webhookUrl: null, caps: NO_CAPS }
const NO_USE = { quotaUse: { openJobs: 0, storedBytes: 0 } }
const NEW = { account: 'acme', tier: 'user_go', revokedAtMs: null, usedAtMs: null, ...STANDING }

export function accountTests(on: On): void {
  const key = (over: Partial<NewKey> = {}): NewKey => ({
    ...{ id: 'key_1', hash: 'h1', account: 'acme', tier: 'user_go', secret: 'whsec_1' },
    ...{ createdAtMs: START_MS, expiresAtMs: null },
    ...over,
  })
  const second = (over: Partial<NewKey> = {}) => key({ id: 'key_2', hash: 'h2', ...over })

  on('creates an account with its first key, and finds keys by their hash', async (store) => {
    assert.equal(await store.hasAccounts(), false)
    assert.deepEqual(await store.createKey(key()), { kind: 'created' })
    assert.deepEqual(await store.createKey(second({ label: 'CI', expiresAtMs: 9 })), { kind: 'created' })
    assert.equal(await store.hasAccounts(), true)
    const found = { id: 'key_2', label: 'CI', ...NEW, createdAtMs: START_MS, expiresAtMs: 9 }
    assert.deepEqual(await store.findKey('h2'), found)
    assert.equal((await store.findKey('h1'))?.label, null)
    assert.equal(await store.findKey('h3'), null)
    assert.deepEqual(ids(await store.listKeys()), ['key_1', 'key_2'])
  })

  on('does not change the tier of an account by a new key', async (store) => {
    await store.createKey(key())
    const other = await store.createKey(second({ tier: 'user_max' }))
    assert.deepEqual(other, { kind: 'other tier', tier: 'user_go' })
    assert.equal((await store.listKeys()).length, 1)
    assert.equal(await store.setTier('acme', 'user_max'), true)
    assert.equal((await store.findKey('h1'))?.tier, 'user_max')
    assert.equal(await store.setTier('nobody', 'user_max'), false)
  })

  on('revokes a key once', async (store) => {
    await store.createKey(key())
    assert.equal(await store.revokeKey('key_1', 5), 'revoked')
    assert.equal(await store.revokeKey('key_1', 6), 'revoked before')
    assert.equal(await store.revokeKey('key_9', 6), 'unknown')
    assert.equal((await store.findKey('h1'))?.revokedAtMs, 5)
  })

  on('rotates a key: the new one has its account and label, the old one expires', async (store) => {
    const [nowMs, graceMs] = [START_MS + 500, 100]
    await store.createKey(key({ label: 'CI' }))
    await store.createKey(second({ expiresAtMs: START_MS + 550 }))
    const rotate = (keyId: string, at = nowMs) =>
      store.rotateKey({ keyId, newId: `${keyId}_new`, newHash: `${keyId}_hash`, nowMs: at, graceMs })
    const made = { ...NEW, createdAtMs: nowMs }
    assert.deepEqual(await rotate('key_1'), {
      kind: 'rotated',
      newKey: { id: 'key_1_new', label: 'CI', ...made, expiresAtMs: null },
      oldExpiresAtMs: nowMs + graceMs,
    })
    assert.equal((await store.findKey('h1'))?.expiresAtMs, nowMs + graceMs)
    assert.equal((await store.findKey('key_1_hash'))?.id, 'key_1_new')
    // An old key that expires earlier keeps its end. The new key gets the old key's whole lifetime.
    assert.deepEqual(await rotate('key_2'), {
      kind: 'rotated',
      newKey: { id: 'key_2_new', label: null, ...made, expiresAtMs: nowMs + 550 },
      oldExpiresAtMs: START_MS + 550,
    })
    assert.deepEqual(await rotate('key_2', START_MS + 550), { kind: 'not active' })
    await store.revokeKey('key_1_new', nowMs)
    assert.deepEqual(await rotate('key_1_new'), { kind: 'not active' })
    assert.deepEqual(await rotate('key_9'), { kind: 'unknown' })
    assert.equal((await store.listKeys()).length, 4)
  })

  on('rotates a key a second time: the newest one lives as long as the first was to live', async (store) => {
    const [minute, lifeMs] = [60_000, 10_000_000]
    await store.createKey(key())
    await store.createKey(second({ label: 'CI', expiresAtMs: START_MS + lifeMs }))
    const rotate = async (keyId: string, time: number, graceMs: number) => {
      const made = { newId: `${keyId}_${time}`, newHash: `${keyId}_${time}` }
      const rotated = await store.rotateKey({ keyId, ...made, nowMs: START_MS + time, graceMs })
      assert.equal(rotated.kind, 'rotated')
      return rotated.kind === 'rotated' && rotated.newKey.expiresAtMs
    }
    const times = [500, 550, 590, 600]
    const graces = [2 * minute, 2 * minute, minute, minute]
    for (const [at, time] of times.entries()) {
      assert.equal(await rotate('key_1', time, graces[at] ?? 0), null)
      assert.equal(await rotate('key_2', time, graces[at] ?? 0), START_MS + time + lifeMs)
    }
    assert.equal((await store.findKey('h2'))?.expiresAtMs, START_MS + 590 + minute)
  })

  on('stores the latest hour in which keys were used', async (store) => {
    await store.createKey(key())
    await store.createKey(second())
    const used = async () => (await store.listKeys()).map(({ usedAtMs }) => usedAtMs)
    assert.deepEqual(await used(), [null, null])
    await store.noteKeyUses(['key_1', 'key_9'], 7)
    await store.noteKeyUses(['key_1', 'key_2'], 5)
    assert.deepEqual(await used(), [7, 5])
    await store.noteKeyUses(['key_2'], 9)
    assert.deepEqual(await used(), [7, 9])
  })

  on('admin tokens have names of their own, until they are revoked', async (store) => {
    const common = { readOnly: false, createdAtMs: 5, expiresAtMs: null }
    const token = { id: 'tok_1', name: 'alice', hash: 'h1', ...common }
    const other = { ...token, id: 'tok_2', name: 'grafana', hash: 'h2', readOnly: true, expiresAtMs: 9 }
    assert.equal(await store.createAdminToken(token), 'created')
    assert.equal(await store.createAdminToken(other), 'created')
    const again = { ...token, id: 'tok_3', hash: 'h3' }
    assert.equal(await store.createAdminToken(again), 'name taken')
    assert.equal(await store.revokeAdminToken('tok_1', 7), 'revoked')
    assert.equal(await store.revokeAdminToken('tok_1', 8), 'revoked before')
    assert.equal(await store.revokeAdminToken('tok_9', 8), 'unknown')
    assert.equal(await store.createAdminToken(again), 'created')
    const unrevoked = [other, again].map((one) => ({ ...one, revokedAtMs: null }))
    assert.deepEqual(await store.listAdminTokens(), [{ ...token, revokedAtMs: 7 }, ...unrevoked])
  })

  on('rotates the signing secret and keeps the one before', async (store) => {
    await store.createKey(key())
    assert.deepEqual(await store.secrets('acme'), { current: 'whsec_1', previous: null })
    assert.equal(await store.rotateSecret('acme', 'whsec_2', 7), true)
    const previous = { secret: 'whsec_1', rotatedAtMs: 7 }
    assert.deepEqual(await store.secrets('acme'), { current: 'whsec_2', previous })
    assert.equal(await store.rotateSecret('nobody', 'whsec_3', 7), false)
    assert.equal(await store.secrets('nobody'), null)
  })

  on('lists accounts by name, with how many keys they have and how many of these work', async (store) => {
    const nowMs = START_MS + 1000
    await store.createKey(key({ account: 'b' }))
    await store.createKey(second({ account: 'b', expiresAtMs: nowMs }))
    await store.createKey(key({ id: 'key_3', hash: 'h3', account: 'b', expiresAtMs: nowMs + 1 }))
    await store.createKey(key({ id: 'key_4', hash: 'h4', account: 'a', tier: 'user_free' }))
    await store.revokeKey('key_4', nowMs)
    await store.rotateSecret('b', 'whsec_2', 7)
    const common = { ...STANDING, ...NO_USE }
    const a = { name: 'a', tier: 'user_free', keys: 1, activeKeys: 0, rotatedAtMs: null, ...common }
    const b = { name: 'b', tier: 'user_go', keys: 3, activeKeys: 2, rotatedAtMs: 7, ...common }
    assert.deepEqual(await store.listAccounts({ limit: 10, nowMs }), [a, b])
    assert.deepEqual(await store.listAccounts({ limit: 1, nowMs }), [a])
    assert.deepEqual(await store.listAccounts({ after: 'a', limit: 10, nowMs }), [b])
    assert.deepEqual(await store.listAccounts({ after: 'b', limit: 10, nowMs }), [])
  })

  on('shows what accounts store, also when the store is opened again', async (store, t, place) => {
    await addAccounts(store, 'acme')
    const jobs = await accept(store, [largeJob('acme', 1), largeJob('acme', 2)], { handedOff: true })
    await settle(store, jobs[0])
    const use = await store.quotaUse('acme')
    assert.equal(use.openJobs, 1)
    const listed = async (at: typeof store) =>
      (await at.listAccounts({ limit: 1, nowMs: now.ms }))[0]?.quotaUse
    assert.deepEqual(await listed(store), use)
    await store.close()
    const again = await place.open()
    t.after(() => again.close())
    assert.deepEqual([await again.quotaUse('acme'), await listed(again)], [use, use])
  })

  on('finds keys newest first, a page at a time', async (store) => {
    for (const [at, account] of ['acme', 'other', 'acme'].entries()) {
      await store.createKey(key({ id: `key_${9 - at}`, hash: `h${at}`, account, createdAtMs: START_MS + at }))
    }
    // This key was created in the same millisecond as the last one, so the IDs decide the order.
    await store.createKey(key({ id: 'key_6', hash: 'h6', createdAtMs: START_MS + 2 }))
    const found = async (over: { account?: string; beforeKeyId?: string; limit?: number } = {}) =>
      (await store.searchKeys({ limit: 10, ...over }))?.map(({ id }) => id)
    assert.deepEqual(await found(), ['key_7', 'key_6', 'key_8', 'key_9'])
    assert.deepEqual(await found({ account: 'acme' }), ['key_7', 'key_6', 'key_9'])
    assert.deepEqual(await found({ account: 'acme', beforeKeyId: 'key_7' }), ['key_6', 'key_9'])
    assert.deepEqual(await found({ beforeKeyId: 'key_6', limit: 1 }), ['key_8'])
    assert.deepEqual(await found({ beforeKeyId: 'key_9' }), [])
    assert.equal(await found({ beforeKeyId: 'key_none' }), undefined)
  })

  on('suspends an account, with all its keys, and resumes it', async (store) => {
    await store.createKey(key())
    assert.equal(await store.suspend('acme', 8), true)
    assert.equal(await store.suspend('acme', 9), true)
    await store.createKey(second())
    for (const hash of ['h1', 'h2']) assert.equal((await store.findKey(hash))?.suspendedAtMs, 8)
    assert.equal((await store.listAccounts({ limit: 1, nowMs: START_MS }))[0]?.suspendedAtMs, 8)
    assert.equal(await store.suspend('acme', null), true)
    assert.equal((await store.findKey('h1'))?.suspendedAtMs, null)
    assert.equal(await store.suspend('nobody', 8), false)
  })

  on("sets where an account's events are sent, also for its keys", async (store) => {
    await store.createKey(key())
    const url = 'https://example.com/events'
    assert.equal(await store.setWebhook('acme', url), true)
    assert.equal((await store.findKey('h1'))?.webhookUrl, url)
    assert.equal((await store.listAccounts({ limit: 1, nowMs: START_MS }))[0]?.webhookUrl, url)
    assert.equal(await store.setWebhook('acme', null), true)
    assert.equal((await store.findKey('h1'))?.webhookUrl, null)
    assert.equal(await store.setWebhook('nobody', url), false)
  })

  on("sets an account's own caps", async (store) => {
    await store.createKey(key())
    for (const caps of [
      { monthlyJobs: 1000, monthlyTokens: 2 ** 40, openJobs: null, storedBytes: null },
      { monthlyJobs: 0, monthlyTokens: 'none', openJobs: 7, storedBytes: 2 ** 40 },
      { monthlyJobs: 'none', monthlyTokens: null, openJobs: 0, storedBytes: 'none' },
      { monthlyJobs: null, monthlyTokens: null, openJobs: 'none', storedBytes: 0 },
    ] as const) {
      assert.equal(await store.setCaps('acme', caps), true)
      assert.deepEqual((await store.findKey('h1'))?.caps, caps)
      assert.deepEqual((await store.searchKeys({ limit: 1 }))?.[0]?.caps, caps)
      assert.deepEqual((await store.listAccounts({ limit: 1, nowMs: START_MS }))[0]?.caps, caps)
    }
    assert.equal(await store.setCaps('nobody', { ...NO_CAPS, monthlyJobs: 1 }), false)
    for (const caps of [{ monthlyCost: 5 }, { monthlyJobs: 3 }, {}]) await store.setCaps('acme', caps)
    const merged = { monthlyTokens: null, openJobs: 'none', storedBytes: 0, monthlyCost: 5 } as const
    assert.deepEqual((await store.findKey('h1'))?.caps, { monthlyJobs: 3, ...merged })
  })
}

export function auditTests(on: On): void {
  const newEntry = (over: Partial<NewAuditEntry> = {}): NewAuditEntry => ({
    // These IDs are in chronological order, like job IDs.
    ...{ id: newJob().id, atMs: now.ms, who: 'root@db1 (command line)', account: 'acme', target: null },
    ...{ what: 'set the tier of an account', detailsJson: '{"tier":"user_max"}' },
    ...over,
  })

  on('stores each entry, and its outcome once that is known', async (store) => {
    const ended = newEntry()
    const interrupted = newEntry({ account: null, target: 'key_1', who: 'zoë "z" from 10.0.0.7' })
    await store.addAuditEntry(ended)
    now.ms += 1
    await store.addAuditEntry(interrupted)
    await store.endAuditEntry(ended.id, 'done')
    const expected = [
      { ...interrupted, outcome: null },
      { ...ended, outcome: 'done' },
    ]
    assert.deepEqual(await store.listAuditEntries({ limit: 10 }), expected)
  })

  on('an entry names the account of its job or key, and none if there is no such job', async (store) => {
    const job = await addQueued(store, { account: 'other' })
    await addAccounts(store, 'keyed')
    for (const target of [job.id, newJob().id, 'not an id']) {
      await store.addAuditEntry(newEntry({ target, account: { ofJob: target } }))
      now.ms += 1
    }
    await store.addAuditEntry(newEntry({ account: { ofKey: 'key of keyed' } }))
    const entries = await store.listAuditEntries({ limit: 10 })
    assert.deepEqual(
      entries.map(({ account }) => account),
      ['keyed', null, null, 'other'],
    )
    assert.equal((await store.listAuditEntries({ account: 'other', limit: 10 })).length, 1)
  })

  on('lists entries newest first, a page at a time, of all accounts or of one', async (store) => {
    const entries: Pick<Job, 'id'>[] = []
    for (const account of ['acme', 'other', 'acme', null]) {
      now.ms += 1
      const entry = newEntry({ account })
      entries.push(entry)
      await store.addAuditEntry(entry)
    }
    const [first, second, third = '', fourth] = ids(entries)
    const found = async (over: { account?: string; beforeEntryId?: string; limit?: number }) =>
      ids(await store.listAuditEntries({ limit: 10, ...over }))
    assert.deepEqual(await found({}), [fourth, third, second, first])
    assert.deepEqual(await found({ account: 'acme' }), [third, first])
    assert.deepEqual(await found({ limit: 1, beforeEntryId: third }), [second])
    assert.deepEqual(await found({ account: 'nobody' }), [])
  })
}
