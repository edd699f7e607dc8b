/** Tests what the admin API does with accounts: suspend them, set their caps, cancel their jobs, and delete them. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { reply } from '../../model-server.ts'
import { onEachStore } from '../../on-each-store.ts'
import { ADMIN_TOKEN, job } from '../../parley.ts'
import { completed, enqueued, failed, granted, invalid, refused } from '../expect.ts'
import { type Stage, type StageOptions, startStage } from '../stage.ts'
import { adminOf, BASE } from './admin.ts'

const MESSAGES = '/api/v1/messages'
const BATCHES = '/api/v1/messages/batches'
const KNOWN_MS = 5000
/** The deletion of an account waits this long for every node to apply the suspension. */
const DELETION_WAITS_MS = 3000

async function start(t: { after(end: () => unknown): void }, options: StageOptions = {}) {
  const stage = await startStage(t, options)
  const key = await stage.parley.key('user_max', 'acme')
  return { ...stage, admin: await adminOf(stage.parley), key }
}

/** Advances the clock until the promise has settled; returns the promise's result. */
async function passing<T>({ clock }: Pick<Stage, 'clock'>, work: Promise<T>): Promise<T> {
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
  test('a suspended account reads its jobs and creates none, until it is resumed', async (t) => {
    const { parley, admin, key, clock } = await start(t)
    const { job_id: id } = granted(await parley.post(MESSAGES, job(), key), 200)
    const since = Math.floor(clock.nowMs() / 1000)
    const suspended = granted(await admin.post('/accounts/acme/suspend'), 200)
    assert.deepEqual(suspended, { name: 'acme', suspended_at: since })
    clock.jump(5000)
    const again = granted(await admin.post('/accounts/acme/suspend'), 200)
    assert.deepEqual(again, suspended, 'since when it was')
    clock.advance(KNOWN_MS)
    assert.match(refused(await parley.post(MESSAGES, job(), key), 403).message, /acme is suspended/)
    completed(await parley.get(`${MESSAGES}/${id}`, key))
    const [listed] = granted(await admin.get('/accounts'), 200).accounts
    assert.equal(listed.suspended_at, since)
    const resumed = granted(await admin.post('/accounts/acme/resume'), 200)
    assert.deepEqual(resumed, { name: 'acme', suspended_at: null })
    clock.advance(KNOWN_MS)
    granted(await parley.post(MESSAGES, job(), key), 200)
  })

  test('an account’s webhook is set, normalized, and cleared', async (t) => {
    const { admin } = await start(t)
    const set = (url: unknown) => admin.post('/accounts/acme/webhook', { url })
    const listed = async () => granted(await admin.get('/accounts/acme'), 200).webhook_url
    assert.equal(await listed(), null)
    const url = 'https://example.com/events?token=secret'
    const answer = granted(await set('https://EXAMPLE.com:443/events?token=secret'), 200)
    assert.deepEqual(answer, { name: 'acme', webhook_url: url })
    assert.equal(await listed(), url)
    const [entry] = granted(await admin.get('/audit'), 200).acts
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
    assert.equal(await listed(), url)
    granted(await set(null), 200)
    assert.equal(await listed(), null)
    refused(await admin.post('/accounts/nobody/webhook', { url: null }), 404)
  })

  test('an account’s caps are set together, and take effect', async (t) => {
    const { parley, admin, key, clock } = await start(t)
    const set = (jobs: unknown, tokens: unknown) =>
      admin.post('/accounts/acme/caps', { max_monthly_jobs: jobs, max_monthly_tokens: tokens })
    const quotas = { max_open_jobs: 'tier', max_stored_bytes: 'tier' }
    const own = { max_monthly_jobs: 1, max_monthly_tokens: 'none', ...quotas }
    assert.deepEqual(granted(await set(1, 'none'), 200), { name: 'acme', ...own })
    const [listed] = granted(await admin.get('/accounts'), 200).accounts
    assert.deepEqual([listed.max_monthly_jobs, listed.max_monthly_tokens], [1, 'none'])
    granted(await parley.post(MESSAGES, job(), key), 200)
    clock.advance(KNOWN_MS)
    const reached = refused(await parley.post(MESSAGES, job(), key), 403)
    assert.match(reached.message, /^Monthly cap reached: account acme allows 1 jobs/)
    const ofTier = { max_monthly_jobs: 'tier', max_monthly_tokens: 'tier', ...quotas }
    assert.deepEqual(granted(await set('tier', 'tier'), 200), { name: 'acme', ...ofTier })
    clock.advance(KNOWN_MS)
    granted(await parley.post(MESSAGES, job(), key), 200)

    const rule = 'must be a whole number of at least 0, none, or tier'
    invalid(await set(-1, 'tier'), `max_monthly_jobs: ${rule}`)
    invalid(await set('tier', 1.5), `max_monthly_tokens: ${rule}`)
    invalid(await set(null, 'tier'), `max_monthly_jobs: ${rule}`)
    const lone = granted(await admin.post('/accounts/acme/caps', { max_monthly_jobs: 1 }), 200)
    assert.deepEqual([lone.max_monthly_jobs, lone.max_monthly_tokens], [1, 'tier'])
    refused(await admin.post('/accounts/acme/caps', {}), 400)
  })

  test('quotas are set with the caps, and absent ones remain unchanged', async (t) => {
    const { parley, admin, key, clock } = await start(t)
    const monthly = { max_monthly_jobs: 'tier', max_monthly_tokens: 'tier' }
    const set = async (quotas: object) =>
      granted(await admin.post('/accounts/acme/caps', { ...monthly, ...quotas }), 200)
    const own = { max_open_jobs: 0, max_stored_bytes: 'none' }
    assert.deepEqual(await set(own), { name: 'acme', ...monthly, ...own })
    assert.deepEqual(await set({}), { name: 'acme', ...monthly, ...own })
    clock.advance(KNOWN_MS)
    const reached = refused(await parley.post(MESSAGES, job(), key), 403)
    assert.match(reached.message, /^Quota reached: account acme allows 0 open jobs, account acme has 0/)
    assert.deepEqual(await set({ max_open_jobs: 'tier' }), {
      name: 'acme',
      ...monthly,
      ...own,
      max_open_jobs: 'tier',
    })
    clock.advance(KNOWN_MS)
    granted(await parley.post(MESSAGES, job(), key), 200)
    const [listed] = granted(await admin.get('/accounts'), 200).accounts
    assert.equal(listed.open_jobs, 0)
    assert.ok(listed.stored_bytes > 0)
    await Promise.all([set({ max_open_jobs: 5 }), set({ max_stored_bytes: 'tier' })])
    const [both] = granted(await admin.get('/accounts'), 200).accounts
    assert.deepEqual([both.max_open_jobs, both.max_stored_bytes], [5, 'tier'])
    const wrong = await admin.post('/accounts/acme/caps', { ...monthly, max_open_jobs: 1.5 })
    invalid(wrong, 'max_open_jobs: must be a whole number of at least 0, none, or tier')
  })

  test('queued jobs are cancelled, and running ones on request', async (t) => {
    const { parley, models, admin, key } = await start(t, {
      script: () => reply.stall(),
      settings: { jobs: { concurrency: 1 } },
    })
    const other = await parley.key('user_max', 'other')
    const different = (content: string) => job({ messages: [{ role: 'user', content }] })
    const mine = enqueued(await parley.post(BATCHES, ['a', 'b', 'c'].map(different), key), 3)
    const [theirs = ''] = enqueued(await parley.post(BATCHES, [job()], other), 1)
    await models.received(1)
    assert.deepEqual(granted(await admin.post('/accounts/acme/cancel-jobs'), 200), { cancelled: 2 })
    assert.equal(models.running(), 1)
    const rest = granted(await admin.post('/accounts/acme/cancel-jobs', { running: true }), 200)
    assert.deepEqual(rest, { cancelled: 1 })
    for (const id of mine) assert.equal(failed(await parley.get(`${MESSAGES}/${id}`, key)).code, 'cancelled')
    assert.equal(await models.requests[0]?.ended, 'cut')
    await models.received(2)
    models.release()
    completed(await parley.ended(theirs, other))
  })

  // Many HTTP libraries send a content type with every request, even with requests that have no body.
  test('a content type without a body is accepted where every field is optional', async (t) => {
    const { parley } = await start(t)
    const headers = { authorization: `Bearer ${ADMIN_TOKEN}`, 'content-type': 'application/json' }
    const post = (path: string) => parley.request(`${BASE}${path}`, { method: 'POST', headers })
    assert.deepEqual(granted(await post('/accounts/acme/cancel-jobs'), 200), { cancelled: 0 })
    assert.deepEqual(granted(await post('/callbacks/replay-failed'), 200), { replayed: 0 })
    granted(await post('/accounts/acme/secret'), 200)
    assert.equal((await post('/accounts/acme/suspend')).status, 200)
    assert.match(refused(await post('/accounts/acme/caps'), 400).details ?? '', /empty/)
    assert.match(refused(await post('/accounts/acme/tier'), 400).details ?? '', /empty/)
  })

  test('an account is deleted with its keys and jobs while others continue', async (t) => {
    const stage = await start(t, { script: () => reply.stall() })
    const { parley, models, admin, key, clock } = stage
    const [id = ''] = enqueued(await parley.post(BATCHES, [job()], key), 1)
    await models.received(1)
    const other = await parley.key('user_max', 'other')
    const answer = await passing(stage, admin.delete('/accounts/acme'))
    const { usage_as: usageAs, ...result } = granted(answer, 200)
    assert.deepEqual(result, { deleted: true, jobs: 1, cancelled: 1 })
    assert.match(usageAs, /^deleted-[0-9a-f]{8}$/)
    assert.equal(await models.requests[0]?.ended, 'cut')
    clock.advance(KNOWN_MS)
    refused(await parley.get(`${MESSAGES}/${id}`, key), 401)
    const { accounts } = granted(await admin.get('/accounts'), 200)
    assert.deepEqual(
      accounts.map(({ name }: { name: string }) => name),
      ['other'],
    )
    assert.deepEqual(granted(await admin.get('/usage?account=acme'), 200).usage, [])
    const [kept] = granted(await admin.get(`/usage?account=${usageAs}`), 200).usage
    assert.deepEqual([kept?.jobs, kept?.failed_jobs], [1, 1])
    assert.deepEqual(granted(await admin.get('/keys?account=acme'), 200).keys, [])
    models.script = () => undefined
    granted(await parley.post(MESSAGES, job(), other), 200)
    const [entry] = granted(await admin.get('/audit?account=acme'), 200).acts
    const { what, details, outcome } = entry
    assert.deepEqual([what, details], ['delete an account', { scrub: true }])
    assert.equal(outcome, 'deleted; 1 jobs deleted, 1 of them cancelled')
    refused(await admin.delete('/accounts/acme'), 404)
  })

  test('an account whose jobs keep coming in is not deleted, and stays suspended', async (t) => {
    const stage = await start(t)
    const { parley, admin } = stage
    parley.store.deleteJobsOf = async () => ({ deleted: 1, open: 0, next: null })
    const answer = await passing(stage, admin.delete('/accounts/acme?scrub=false'))
    const { message, details } = refused(answer, 409)
    assert.equal(message, 'The account is still in use.')
    assert.match(details ?? '', /was suspended but not deleted; 5 of its jobs were deleted\. Revoke its keys/)
    const [listed] = granted(await admin.get('/accounts'), 200).accounts
    assert.notEqual(listed.suspended_at, null)
  })

  test('an account that never existed is not found', async (t) => {
    const { admin } = await start(t)
    for (const name of ['nobody', '%00']) {
      for (const action of ['suspend', 'resume', 'cancel-jobs']) {
        refused(await admin.post(`/accounts/${name}/${action}`), 404)
      }
      const caps = { max_monthly_jobs: 1, max_monthly_tokens: 1 }
      refused(await admin.post(`/accounts/${name}/caps`, caps), 404)
      refused(await admin.delete(`/accounts/${name}`), 404)
    }
  })
})
