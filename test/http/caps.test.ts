/** Tests monthly caps and suspended accounts, as callers see them. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { onEachStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { NO_CAPS } from '../store-contract/fixtures.ts'
import { completed, enqueued, granted, invalid, refused } from './expect.ts'
import { startStage, UNLIMITED_READS } from './stage.ts'

const MESSAGES = '/api/v1/messages'
const BATCHES = '/api/v1/messages/batches'
const FRESH_MS = 2000
const KEY_REUSED =
  'Idempotency-Key: was already used with a different request; use a new key for each new request.'

const capped = (cap: Readonly<Record<string, number>>) => ({
  tiers: { ...UNLIMITED_READS, user_go: { ...UNLIMITED_READS.user_go, ...cap } },
})
const RESETS = 'The cap resets at 2026-02-01T00:00:00Z.'

onEachStore(() => {
  test('a cap on jobs: 403 that names it and when it resets; nothing is created, and reads continue', async (t) => {
    const { parley, clock } = await startStage(t, { settings: capped({ max_monthly_jobs: 4 }) })
    const [key, other] = [await parley.key('user_go', 'acme'), await parley.key('user_max', 'other')]
    completed(await parley.post(MESSAGES, job(), key))
    const [id = ''] = enqueued(await parley.post(BATCHES, [job(), job()], key), 2)
    const tooMany = refused(await parley.post(BATCHES, [job(), job()], key), 403)
    assert.equal(
      tooMany.message,
      `Monthly cap reached: tier user_go allows 4 jobs per month, and 3 are used. ${RESETS}`,
    )
    completed(await parley.post(MESSAGES, job(), key))
    refused(await parley.post(MESSAGES, job(), key), 403)
    granted(await parley.get(`${MESSAGES}/${id}`, key), 200)
    completed(await parley.post(MESSAGES, job(), other))
    clock.advance(FRESH_MS)
    refused(await parley.post(MESSAGES, job(), key), 403)
    const me = granted(await parley.get('/api/v1/me', key), 200)
    assert.equal(me.limits.max_monthly_jobs, 4)
    assert.equal(me.usage.jobs, 4)
  })

  test('a request that repeats an accepted one gets its jobs although the cap is reached', async (t) => {
    const { parley } = await startStage(t, { settings: capped({ max_monthly_jobs: 3 }) })
    const key = await parley.key('user_go', 'acme')
    const [single, batch] = [{ 'idempotency-key': 'single' }, { 'idempotency-key': 'batch' }]
    const { job_id: id } = completed(await parley.post(MESSAGES, job(), key, single))
    const ids = enqueued(await parley.post(BATCHES, [job(), job()], key, batch), 2)
    refused(await parley.post(MESSAGES, job(), key), 403)
    refused(await parley.post(MESSAGES, job(), key, { 'idempotency-key': 'new' }), 403)
    assert.equal(completed(await parley.post(MESSAGES, job(), key, single)).job_id, id)
    assert.deepEqual(enqueued(await parley.post(BATCHES, [job(), job()], key, batch), 2), ids)
    invalid(await parley.post(BATCHES, [job()], key, batch), KEY_REUSED)
  })

  test('jobs that fail their checks take nothing of a cap', async (t) => {
    const { parley } = await startStage(t, { settings: capped({ max_monthly_jobs: 1 }) })
    const key = await parley.key('user_go')
    refused(await parley.post(MESSAGES, job({ model: 'none' }), key), 400)
    refused(await parley.post(BATCHES, [job(), job()], key), 403)
    completed(await parley.post(MESSAGES, job(), key))
  })

  test('concurrent creates do not exceed a cap on jobs', async (t) => {
    const { parley } = await startStage(t, { settings: capped({ max_monthly_jobs: 5 }) })
    const key = await parley.key('user_go')
    const answers = await Promise.all(Array.from({ length: 20 }, () => parley.post(MESSAGES, job(), key)))
    assert.equal(answers.filter(({ status }) => status === 200).length, 5)
    assert.equal(answers.filter(({ status }) => status === 403).length, 15)
  })

  test('a cap on tokens: what is used up is known when jobs end, at the latest after two seconds', async (t) => {
    const { parley, clock } = await startStage(t, { settings: capped({ max_monthly_tokens: 10 }) })
    const key = await parley.key('user_go')
    const { limits } = granted(await parley.get('/api/v1/me', key), 200)
    assert.deepEqual([limits.max_monthly_jobs, limits.max_monthly_tokens], [null, 10])
    // The model server counts characters as tokens: 5 of input, and the echo as output.
    completed(await parley.post(MESSAGES, job(), key))
    clock.advance(FRESH_MS)
    const { message } = refused(await parley.post(MESSAGES, job(), key), 403)
    assert.equal(
      message,
      `Monthly cap reached: tier user_go allows 10 tokens per month, and 16 are used. ${RESETS}`,
    )
  })

  test("an account's own cap overrides its tier's, within two seconds", async (t) => {
    const { parley, clock } = await startStage(t, { settings: capped({ max_monthly_jobs: 1 }) })
    const key = await parley.key('user_go', 'acme')
    completed(await parley.post(MESSAGES, job(), key))
    refused(await parley.post(MESSAGES, job(), key), 403)
    await parley.store.setCaps('acme', { ...NO_CAPS, monthlyJobs: 2 })
    clock.advance(FRESH_MS)
    completed(await parley.post(MESSAGES, job(), key))
    const { message } = refused(await parley.post(MESSAGES, job(), key), 403)
    assert.match(message, /account acme allows 2 jobs per month, and 2 are used/)
  })

  test('a suspended account reads, and creates nothing, within two seconds', async (t) => {
    const { parley, clock } = await startStage(t)
    const key = await parley.key('user_go', 'acme')
    const [id = ''] = enqueued(await parley.post(BATCHES, [job()], key), 1)
    await parley.store.suspend('acme', clock.nowMs())
    clock.advance(FRESH_MS)
    const { message } = refused(await parley.post(MESSAGES, job(), key), 403)
    assert.equal(message, 'Account acme is suspended: it can read its jobs, but cannot create new ones.')
    refused(await parley.post(BATCHES, [job()], key), 403)
    assert.equal(completed(await parley.ended(id, key)), 'echo: Hello')
    assert.equal(granted(await parley.get('/api/v1/me', key), 200).suspended, true)
    await parley.store.suspend('acme', null)
    clock.advance(FRESH_MS)
    completed(await parley.post(MESSAGES, job(), key))
  })
})
