/** Tests the admin API's routes for accounts and keys, and its actions on accounts: suspend, cap, cancel jobs, and delete. */
import assert from 'node:assert/strict'
import test from 'node:test'
import type { FakeClock } from '../../fake-clock.ts'
import { reply } from '../../model-server.ts'
import { onEachStore } from '../../on-each-store.ts'
import { ADMIN_TOKEN, type Parley } from '../../parley.ts'
import { eventually } from '../../support/eventually.ts'
import { beforeTests } from '../../support/on-first-use.ts'
import { callerOf, idOf, ME, type Scene, says } from '../caller.ts'
import { completed, failed, granted, invalid, refused } from '../expect.ts'
import { startStage } from '../stage.ts'
import { type Admin, adminOf, BASE, shareAdminStage, startAdminScene } from './admin.ts'

const DAY_S = 86_400

const KNOWN_MS = 5000
/** A deletion waits this long, so that every node has applied the suspension. */
const DELETION_WAITS_MS = 3000
const CAP_RULE = 'must be a whole number of at least 0, none, or tier'

async function passing<T>({ clock }: Pick<Scene, 'clock'>, work: Promise<T>): Promise<T> {
  let isDone = false
  const done = work.finally(() => {
    isDone = true
  })
  for (;;) {
    await Promise.race([done, clock.timerSet((ms) => ms === DELETION_WAITS_MS)])
    if (isDone) return done
    clock.advance(DELETION_WAITS_MS)
  }
}

onEachStore(() => {
  const begin = shareAdminStage()

  let parley: Parley
  let clock: FakeClock
  let admin: Admin
  beforeTests(async (t) => {
    ;({ parley, clock } = await startStage(t))
    admin = await adminOf(parley)
  })
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

  test('5.2 a key expires after its days: 401', async () => {
    const { key, expires_at } = await made({ account: 'short', tier: 'user_free', expires_days: 0.5 })
    assert.equal(expires_at, Math.floor(clock.nowMs() / 1000) + DAY_S / 2)
    clock.skip((DAY_S / 2) * 1000 - 1)
    granted(await parley.get(ME, key), 200)
    // A node may use what it knows about a key for a few seconds.
    clock.advance(5000)
    refused(await parley.get(ME, key), 401, { details: /The API key has expired\.$/ })
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
    refused(await admin.post(`/keys/${old.id}/rotate`), 409, { details: /has expired/ })
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
    const gone = /^before: this key does not exist any more/
    invalid(await admin.get('/keys?account=many&before=key_000000000000'), gone)
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
    refused(await admin.post('/keys', '{'), 400, { message: 'The body is not valid JSON.' })
    refused(await admin.post('/keys/key_none/revoke'), 404)
    // Postgres cannot store the character U+0000, so Parley rejects these values on every store, before it asks the database.
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

  test('a suspended account reads its jobs and creates none, until it is resumed', async (t) => {
    const { caller, admin, account: name, clock } = await begin(t)
    const id = idOf(await caller.create())
    const since = Math.floor(clock.nowMs() / 1000)
    const suspended = await admin.run(`/accounts/${name}/suspend`)
    assert.deepEqual(suspended, { name, suspended_at: since })
    clock.jump(5000)
    assert.deepEqual(await admin.run(`/accounts/${name}/suspend`), suspended, 'since when it was')
    clock.advance(KNOWN_MS)
    refused(await caller.create(), 403, { message: new RegExp(`${name} is suspended`) })
    completed(await caller.read(id))
    assert.equal((await admin.read(`/accounts/${name}`)).suspended_at, since)
    assert.deepEqual(await admin.run(`/accounts/${name}/resume`), { name, suspended_at: null })
    clock.advance(KNOWN_MS)
    granted(await caller.create(), 200)
  })

  test('an account’s webhook is set, normalized, and cleared', async (t) => {
    const { admin, account: name } = await begin(t)
    const set = (url: unknown) => admin.post(`/accounts/${name}/webhook`, { url })
    const shows = async (url: string | null) =>
      assert.equal((await admin.read(`/accounts/${name}`)).webhook_url, url)
    await shows(null)
    const url = 'https://example.com/events?token=secret'
    const answer = granted(await set('https://EXAMPLE.com:443/events?token=secret'), 200)
    assert.deepEqual(answer, { name, webhook_url: url })
    await shows(url)
    const [entry] = (await admin.read(`/audit?account=${name}`)).acts
    assert.equal(entry.what, 'set the webhook of an account')
    assert.deepEqual(entry.details, { origin: 'https://example.com' }, 'the rest may be secret')
    for (const [wrong, words] of [
      ['ftp://example.com/', /http or https/],
      ['https://user:pass@example.com/', /user name/],
      ['http://169.254.169.254/latest', /never be sent to/],
      ['', /empty/],
    ] as const) {
      refused(await set(wrong), 400, { details: words })
    }
    await shows(url)
    granted(await set(null), 200)
    await shows(null)
  })

  test('an account’s caps are set together, and take effect', async (t) => {
    const { caller, admin, account: name, clock } = await begin(t)
    const path = `/accounts/${name}/caps`
    const set = (jobs: unknown, tokens: unknown) =>
      admin.post(path, { max_monthly_jobs: jobs, max_monthly_tokens: tokens })
    const quotas = { max_open_jobs: 'tier', max_stored_bytes: 'tier' }
    const own = { max_monthly_jobs: 1, max_monthly_tokens: 'none', ...quotas }
    assert.deepEqual(granted(await set(1, 'none'), 200), { name, ...own })
    const listed = await admin.read(`/accounts/${name}`)
    assert.deepEqual([listed.max_monthly_jobs, listed.max_monthly_tokens], [1, 'none'])
    granted(await caller.create(), 200)
    clock.advance(KNOWN_MS)
    const reached = refused(await caller.create(), 403).message
    assert.match(reached, new RegExp(`^Monthly cap reached: account ${name} allows 1 jobs`))
    const ofTier = { max_monthly_jobs: 'tier', max_monthly_tokens: 'tier', ...quotas }
    assert.deepEqual(granted(await set('tier', 'tier'), 200), { name, ...ofTier })
    clock.advance(KNOWN_MS)
    granted(await caller.create(), 200)

    invalid(await set(-1, 'tier'), `max_monthly_jobs: ${CAP_RULE}`)
    invalid(await set('tier', 1.5), `max_monthly_tokens: ${CAP_RULE}`)
    invalid(await set(null, 'tier'), `max_monthly_jobs: ${CAP_RULE}`)
    const lone = await admin.run(path, { max_monthly_jobs: 1 })
    assert.deepEqual([lone.max_monthly_jobs, lone.max_monthly_tokens], [1, 'tier'])
    refused(await admin.post(path, {}), 400)
  })

  test('quotas are set with the caps, and absent ones remain unchanged', async (t) => {
    const { caller, admin, account: name, clock } = await begin(t)
    const monthly = { max_monthly_jobs: 'tier', max_monthly_tokens: 'tier' }
    const path = `/accounts/${name}/caps`
    const set = (quotas: object) => admin.run(path, { ...monthly, ...quotas })
    const own = { name, ...monthly, max_open_jobs: 0, max_stored_bytes: 'none' }
    assert.deepEqual(await set({ max_open_jobs: 0, max_stored_bytes: 'none' }), own)
    assert.deepEqual(await set({}), own)
    clock.advance(KNOWN_MS)
    const reached = refused(await caller.create(), 403).message
    const rule = `^Quota reached: account ${name} allows 0 open jobs, account ${name} has 0`
    assert.match(reached, new RegExp(rule))
    assert.deepEqual(await set({ max_open_jobs: 'tier' }), { ...own, max_open_jobs: 'tier' })
    clock.advance(KNOWN_MS)
    granted(await caller.create(), 200)
    const listed = await admin.read(`/accounts/${name}`)
    assert.equal(listed.open_jobs, 0)
    assert.ok(listed.stored_bytes > 0)
    await Promise.all([set({ max_open_jobs: 5 }), set({ max_stored_bytes: 'tier' })])
    const both = await admin.read(`/accounts/${name}`)
    assert.deepEqual([both.max_open_jobs, both.max_stored_bytes], [5, 'tier'])
    invalid(await admin.post(path, { ...monthly, max_open_jobs: 1.5 }), `max_open_jobs: ${CAP_RULE}`)
  })

  test('queued jobs are cancelled, and running ones on request', async (t) => {
    const { parley, caller, models, admin } = await startAdminScene(t, {
      script: () => reply.stall(),
      settings: { jobs: { concurrency: 1 } },
      account: 'acme',
    })
    const other = await callerOf(parley, 'user_max', 'other')
    const mine = await caller.enqueue(['a', 'b', 'c'].map((content) => says(content)))
    const theirs = await other.enqueueOne()
    await models.received(1)
    assert.deepEqual(await admin.run('/accounts/acme/cancel-jobs'), { cancelled: 2 })
    assert.equal(models.running(), 1)
    assert.deepEqual(await admin.run('/accounts/acme/cancel-jobs', { running: true }), { cancelled: 1 })
    for (const id of mine) assert.equal(failed(await caller.read(id)).code, 'cancelled')
    assert.equal(await models.requests[0]?.ended, 'cut')
    await models.received(2)
    models.release()
    completed(await other.ended(theirs))
  })

  // Many HTTP libraries send a content type with every request, even without a body.
  test('a content type without a body is accepted where every field is optional', async (t) => {
    const { parley, account } = await begin(t)
    const headers = { authorization: `Bearer ${ADMIN_TOKEN}`, 'content-type': 'application/json' }
    const post = (path: string) => parley.request(`${BASE}${path}`, { method: 'POST', headers })
    assert.deepEqual(granted(await post(`/accounts/${account}/cancel-jobs`), 200), { cancelled: 0 })
    assert.deepEqual(granted(await post('/callbacks/replay-failed'), 200), { replayed: 0 })
    for (const action of ['secret', 'suspend']) granted(await post(`/accounts/${account}/${action}`), 200)
    for (const action of ['caps', 'tier']) {
      refused(await post(`/accounts/${account}/${action}`), 400, { details: /empty/ })
    }
  })

  test('an account is deleted with its keys and jobs while others continue', async (t) => {
    const scene = await begin(t, () => reply.stall())
    const { parley, caller, models, admin, account, clock } = scene
    const id = await caller.enqueueOne()
    await models.received(1)
    const other = await callerOf(parley, 'user_max', 'other')
    const answer = await passing(scene, admin.delete(`/accounts/${account}`))
    const { usage_as: usageAs, ...result } = granted(answer, 200)
    assert.deepEqual(result, { deleted: true, jobs: 1, cancelled: 1 })
    assert.match(usageAs, /^deleted-[0-9a-f]{8}$/)
    assert.equal(await models.requests[0]?.ended, 'cut')
    clock.advance(KNOWN_MS)
    refused(await caller.read(id), 401)
    refused(await admin.get(`/accounts/${account}`), 404)
    assert.equal((await admin.read('/accounts/other')).name, 'other')
    assert.deepEqual((await admin.read(`/usage?account=${account}`)).usage, [])
    const [kept] = (await admin.read(`/usage?account=${usageAs}`)).usage
    assert.deepEqual([kept?.jobs, kept?.failed_jobs], [1, 1])
    assert.deepEqual((await admin.read(`/keys?account=${account}`)).keys, [])
    models.script = () => undefined
    granted(await other.create(), 200)
    const [{ what, details, outcome }] = (await admin.read(`/audit?account=${account}`)).acts
    assert.deepEqual([what, details], ['delete an account', { scrub: true }])
    assert.equal(outcome, 'deleted; 1 jobs deleted, 1 of them cancelled')
    refused(await admin.delete(`/accounts/${account}`), 404)
  })

  test('an account whose jobs keep coming in is not deleted, and stays suspended', async (t) => {
    const scene = await begin(t)
    const { parley, admin, account } = scene
    t.mock.method(parley.store, 'deleteJobsOf', async () => ({ deleted: 1, open: 0, next: null }))
    const answer = await passing(scene, admin.delete(`/accounts/${account}?scrub=false`))
    refused(answer, 409, {
      message: 'The account is still in use.',
      details: /was suspended but not deleted; 5 of its jobs were deleted\. Revoke its keys/,
    })
    assert.notEqual((await admin.read(`/accounts/${account}`)).suspended_at, null)
  })

  test('an account that never existed is not found', async (t) => {
    const { admin } = await begin(t)
    for (const name of ['nobody', '%00']) {
      for (const [action, body] of [
        ['suspend', undefined],
        ['resume', undefined],
        ['cancel-jobs', undefined],
        ['caps', { max_monthly_jobs: 1, max_monthly_tokens: 1 }],
        ['tier', { tier: 'user_pro' }],
        ['secret', { rotate: true }],
        ['webhook', { url: null }],
      ] as const) {
        refused(await admin.post(`/accounts/${name}/${action}`, body), 404)
      }
      refused(await admin.delete(`/accounts/${name}`), 404)
    }
  })
})
