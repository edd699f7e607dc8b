/** Tests what the admin API does with accounts: suspend them, set their caps, cancel their jobs, and delete them. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { reply } from '../../model-server.ts'
import { onEachStore } from '../../on-each-store.ts'
import { ADMIN_TOKEN } from '../../parley.ts'
import { callerOf, idOf, type Scene, says } from '../caller.ts'
import { completed, failed, granted, invalid, refused } from '../expect.ts'
import { BASE, shareAdminStage, startAdminScene } from './admin.ts'

const KNOWN_MS = 5000
/** The deletion of an account waits this long for every node to apply the suspension. */
const DELETION_WAITS_MS = 3000
const CAP_RULE = 'must be a whole number of at least 0, none, or tier'

/** Advances the clock until the promise has settled; returns the promise's result. */
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

onEachStore(async () => {
  const begin = await shareAdminStage()

  test('a suspended account reads its jobs and creates none, until it is resumed', async (t) => {
    const { caller, admin, account: name, clock } = await begin(t)
    const id = idOf(await caller.create())
    const since = Math.floor(clock.nowMs() / 1000)
    const suspended = await admin.run(`/accounts/${name}/suspend`)
    assert.deepEqual(suspended, { name, suspended_at: since })
    clock.jump(5000)
    assert.deepEqual(await admin.run(`/accounts/${name}/suspend`), suspended, 'since when it was')
    clock.advance(KNOWN_MS)
    assert.match(refused(await caller.create(), 403).message, new RegExp(`${name} is suspended`))
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
      assert.match(refused(await set(wrong), 400).details ?? '', words)
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

  // Many HTTP libraries send a content type with every request, even with requests that have no body.
  test('a content type without a body is accepted where every field is optional', async (t) => {
    const { parley, account } = await begin(t)
    const headers = { authorization: `Bearer ${ADMIN_TOKEN}`, 'content-type': 'application/json' }
    const post = (path: string) => parley.request(`${BASE}${path}`, { method: 'POST', headers })
    assert.deepEqual(granted(await post(`/accounts/${account}/cancel-jobs`), 200), { cancelled: 0 })
    assert.deepEqual(granted(await post('/callbacks/replay-failed'), 200), { replayed: 0 })
    for (const action of ['secret', 'suspend']) granted(await post(`/accounts/${account}/${action}`), 200)
    for (const action of ['caps', 'tier']) {
      const { details } = refused(await post(`/accounts/${account}/${action}`), 400)
      assert.match(details ?? '', /empty/)
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
    const { message, details } = refused(answer, 409)
    assert.equal(message, 'The account is still in use.')
    assert.match(details ?? '', /was suspended but not deleted; 5 of its jobs were deleted\. Revoke its keys/)
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
