/** Tests the admin API's routes for accounts and keys. */
import assert from 'node:assert/strict'
import test, { after } from 'node:test'
import { onEachStore } from '../../on-each-store.ts'
import { eventually } from '../../support/eventually.ts'
import { ME } from '../caller.ts'
import { granted, invalid, refused } from '../expect.ts'
import { startStage } from '../stage.ts'
import { adminOf } from './admin.ts'

const DAY_S = 86_400

onEachStore(async () => {
  const { parley, clock } = await startStage({ after })
  const admin = await adminOf(parley)
  const acts = () =>
    parley.log
      .filter(({ message }) => message === 'admin')
      .map(({ level, message, request_id, from, ...rest }) => rest)

  const made = async (fields: object) => granted(await admin.post('/keys', fields), 201)

  test('a key is created with its account, works, is listed, and is revoked permanently', async (t) => {
    const { id, key, ...rest } = await made({ account: 'acme', tier: 'user_go' })
    assert.deepEqual(rest, { account: 'acme', label: null, tier: 'user_go', expires_at: null })
    assert.deepEqual(granted(await parley.get(ME, key), 200).key_id, id)
    // The use of a key is stored after the response.
    const listed = await eventually(
      () => admin.get('/keys?account=acme'),
      ({ body }) => body.data.keys[0].last_used_at !== null,
      { signal: t.signal },
    )
    const { keys, more } = granted(listed, 200)
    const created_at = Math.floor(clock.nowMs() / 1000)
    const last_used_at = created_at - (created_at % 3600)
    const common = { id, ...rest, created_at, last_used_at }
    assert.deepEqual([keys, more], [[{ ...common, revoked_at: null }], false])
    assert.ok(!listed.text.includes(key))

    assert.deepEqual(await admin.run(`/keys/${id}/revoke`), { id, revoked: true })
    clock.advance(5000)
    refused(await parley.get(ME, key), 401)
    assert.deepEqual(await admin.run(`/keys/${id}/revoke`), { id, revoked: true })
    const [revoked] = (await admin.read('/keys?account=acme')).keys
    assert.deepEqual(revoked, { ...common, revoked_at: created_at })
    assert.deepEqual(acts(), [
      { what: 'make a key', key_id: id, account: 'acme', tier: 'user_go' },
      { what: 'revoke a key', key_id: id },
      { what: 'revoke a key', key_id: id },
    ])
  })

  test('a key has the label it was created with, one line of at most 100 characters', async () => {
    const label = 'Billing, nightly – José'
    assert.equal((await made({ account: 'titled', tier: 'user_go', label })).label, label)
    const [listed] = (await admin.read('/keys?account=titled')).keys
    assert.equal(listed?.label, label)
    for (const wrong of ['', 'two\nlines', 'nul\0', 'x'.repeat(101)]) {
      refused(await admin.post('/keys', { account: 'titled', label: wrong }), 400)
    }
  })

  test('a key expires after its days', async () => {
    const { key, expires_at } = await made({ account: 'short', tier: 'user_free', expires_days: 0.5 })
    assert.equal(expires_at, Math.floor(clock.nowMs() / 1000) + DAY_S / 2)
    granted(await parley.get(ME, key), 200)
    clock.skip((DAY_S / 2) * 1000)
    refused(await parley.get(ME, key), 401)
  })

  test('a key that is rotated works until its grace time ends, and the new one stays', async () => {
    const old = await made({ account: 'rotated', tier: 'user_go', label: 'CI', expires_days: 30 })
    clock.advance(DAY_S * 1000)
    const nowS = Math.floor(clock.nowMs() / 1000)
    const rotated = await admin.post(`/keys/${old.id}/rotate`, { grace_hours: 2 })
    const { id, key, ...rest } = granted(rotated, 201)
    assert.deepEqual(rest, {
      account: 'rotated',
      label: 'CI',
      tier: 'user_go',
      expires_at: nowS + 30 * DAY_S,
      old_key: { id: old.id, expires_at: nowS + 2 * 3600 },
    })
    for (const one of [old.key, key]) granted(await parley.get(ME, one), 200)
    clock.skip(2 * 3600 * 1000)
    refused(await parley.get(ME, old.key), 401)
    assert.equal(granted(await parley.get(ME, key), 200).key_id, id)
    assert.match(refused(await admin.post(`/keys/${old.id}/rotate`), 409).details ?? '', /has expired/)
    refused(await admin.post('/keys/key_none/rotate'), 404)
    invalid(await admin.post(`/keys/${id}/rotate`, { grace_hours: -1 }), /^grace_hours: must be >= 0/)
    const rotation = { what: 'rotate a key', key_id: old.id, new_key_id: id, account: 'rotated' }
    assert.deepEqual(
      acts().find(({ what, new_key_id }) => what === 'rotate a key' && new_key_id === id),
      rotation,
    )
  })

  test('keys are listed newest first, a page at a time', async () => {
    const ids: string[] = []
    for (let count = 0; count < 3; count++) {
      clock.advance(1000)
      ids.unshift((await made({ account: 'many', tier: 'user_max' })).id)
    }
    const page = await admin.read('/keys?account=many&limit=2')
    assert.deepEqual([page.keys.map(({ id }: { id: string }) => id), page.more], [ids.slice(0, 2), true])
    const rest = await admin.read(`/keys?account=many&limit=2&before=${ids[1]}`)
    assert.deepEqual([rest.keys.map(({ id }: { id: string }) => id), rest.more], [ids.slice(2), false])
  })

  test('errors in a new key are reported by field', async () => {
    const acme = { account: 'acme', tier: 'user_go' }
    for (const [body, details] of [
      [{ tier: 'user_go' }, 'account: is required'],
      [{ account: 'new' }, 'tier: is required for a new account'],
      [{ account: 'a b', tier: 'user_go' }, /^account: letters, digits/],
      [{ account: 'acme', tier: 'user_gold' }, /^tier: must be one of user_free, /],
      [{ ...acme, expires_days: 0 }, /^expires_days: must be > 0/],
      [{ ...acme, expires_days: 1e9 }, /^expires_days: must be <= 36500/],
      [{ ...acme, key: 'prl_x' }, 'key: is not a known field'],
    ] as const) {
      invalid(await admin.post('/keys', body), details)
    }
    const taken = refused(await admin.post('/keys', { account: 'acme', tier: 'user_max' }), 409)
    assert.match(taken.details ?? '', /account acme has user_go/)
    assert.equal(refused(await admin.post('/keys', '{'), 400).message, 'The body is not valid JSON.')
    refused(await admin.post('/keys/key_none/revoke'), 404)
    // Databases cannot store the character U+0000, so Parley rejects these values before it asks the database.
    refused(await admin.post('/keys/%00/revoke'), 404)
    invalid(
      await admin.post('/callbacks/replay-failed', { account: '\u0000' }),
      /^account: must match pattern/,
    )
    for (const query of ['accounts?after', 'keys?account', 'keys?before', 'callbacks?account']) {
      invalid(await admin.get(`/${query}=%00`), /must match pattern/)
    }
  })

  test('accounts are listed by name, moved to another tier, and their keys follow', async () => {
    const { accounts } = await admin.read('/accounts')
    const named = accounts.find(({ name }: { name: string }) => name === 'acme')
    const acme = {
      name: 'acme',
      tier: 'user_go',
      keys: 1,
      active_keys: 0,
      secret_rotated_at: null,
      suspended_at: null,
      webhook_url: null,
      max_monthly_jobs: 'tier',
      max_monthly_tokens: 'tier',
      max_open_jobs: 'tier',
      max_stored_bytes: 'tier',
      open_jobs: 0,
      stored_bytes: named.stored_bytes,
    }
    assert.deepEqual(named, acme)
    const page = await admin.read('/accounts?limit=1&after=acme')
    assert.deepEqual([page.accounts[0].name, page.more], ['many', true])
    const moved = await admin.post('/accounts/acme/tier', { tier: 'user_pro' })
    assert.deepEqual(granted(moved, 200), { name: 'acme', tier: 'user_pro' })
    assert.equal((await parley.store.listAccounts({ limit: 1, nowMs: 0 }))[0]?.tier, 'user_pro')
    invalid(await admin.post('/accounts/acme/tier', { tier: 'gold' }), /^tier: must be one of/)
    assert.deepEqual(acts().at(-1), { what: 'set the tier of an account', account: 'acme', tier: 'user_pro' })
  })

  test('one account is read by its name, however many sort before it', async () => {
    const { accounts } = await admin.read('/accounts')
    const listed = accounts.find(({ name }: { name: string }) => name === 'acme')
    assert.deepEqual(await admin.read('/accounts/acme'), listed)
    const names = ['z', ...Array.from({ length: 60 }, (_, at) => `z${at + 10}`), 'zz']
    await Promise.all(names.map((name) => parley.key('user_go', name)))
    for (const name of ['z', 'z10', 'zz']) {
      assert.equal((await admin.read(`/accounts/${name}`)).name, name)
    }
    for (const name of ['nobody', 'zzz', 'ACME', '-', '%00', 'a%20b'])
      refused(await admin.get(`/accounts/${name}`), 404)
  })

  test('a signing secret is shown and rotated, and both are logged', async () => {
    const secret = async (body?: unknown) => (await admin.run('/accounts/acme/secret', body)).secret
    const first = await secret()
    assert.match(first, /^whsec_/)
    assert.equal(await secret({}), first)
    assert.equal(await secret({ rotate: false }), first)
    const second = await secret({ rotate: true })
    assert.notEqual(second, first)
    const stored = await parley.store.secrets('acme')
    assert.deepEqual([stored?.current, stored?.previous?.secret], [second, first])
    const { accounts } = await admin.read('/accounts?limit=1')
    assert.equal(accounts[0].secret_rotated_at, Math.floor(clock.nowMs() / 1000))
    invalid(await admin.post('/accounts/acme/secret', { rotate: 'yes' }), 'rotate: must be a boolean')
    const looks = acts().slice(-4)
    assert.deepEqual(
      looks.map(({ what }) => what),
      ['look at a secret', 'look at a secret', 'look at a secret', 'rotate a secret'],
    )
    assert.ok(!JSON.stringify(parley.log).includes('whsec_'))
  })

  test('a further key of an account needs no tier', async () => {
    await made({ account: 'further', tier: 'user_pro' })
    const { key, tier } = await made({ account: 'further' })
    assert.equal(tier, 'user_pro')
    assert.equal(granted(await parley.get(ME, key), 200).tier, 'user_pro')
    assert.equal(acts().at(-1)?.tier, 'user_pro')
  })
})
