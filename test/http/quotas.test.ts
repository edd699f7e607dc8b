/** Tests the quotas of open jobs and stored bytes, as callers see them. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { NO_CAPS } from '../store-contract/fixtures.ts'
import { completed, enqueued, granted, refused } from './expect.ts'
import { startStage, UNLIMITED_READS } from './stage.ts'

const MESSAGES = '/api/v1/messages'
const BATCHES = '/api/v1/messages/batches'
const ME = '/api/v1/me'
/** A node refreshes its sums of stored bytes after this many milliseconds at the earliest. */
const PAUSE_MS = 100
/** A node knows a changed quota after this many milliseconds. */
const KEY_FRESH_MS = 2000

const limited = (quota: Readonly<Record<string, number>>) => ({
  tiers: { ...UNLIMITED_READS, user_go: { ...UNLIMITED_READS.user_go, ...quota } },
})
const texts = (length: number) => job({ messages: [{ role: 'user', content: 'x'.repeat(length) }] })

onEachStore(() => {
  test('403 names the quota of open jobs and its use; jobs that end make room', async (t) => {
    const { parley, models, clock } = await startStage(t, {
      settings: limited({ max_open_jobs: 3 }),
      script: () => reply.stall(),
    })
    const [key, other] = [await parley.key('user_go', 'acme'), await parley.key('user_go', 'other')]
    const ids = enqueued(await parley.post(BATCHES, [job(), job()], key), 2)
    clock.advance(PAUSE_MS)
    const { message, details } = refused(await parley.post(BATCHES, [job(), job()], key), 403)
    assert.equal(
      message,
      'Quota reached: tier user_go allows 3 open jobs, account acme has 2, and this request would add 2.',
    )
    assert.equal(details, 'Wait until some of them have finished. A batch is rejected as a whole.')
    enqueued(await parley.post(BATCHES, [job()], key), 1)
    refused(await parley.post(MESSAGES, job(), key), 403)
    enqueued(await parley.post(BATCHES, [job(), job(), job()], other), 3)
    const { limits, open_jobs } = granted(await parley.get(ME, key), 200)
    assert.deepEqual([limits.max_open_jobs, limits.max_stored_bytes, open_jobs], [3, 10_737_418_240, 3])

    models.script = () => undefined
    models.release()
    for (const id of ids) completed(await parley.ended(id, key))
    clock.advance(PAUSE_MS)
    completed(await parley.post(MESSAGES, job(), key))
    const { text } = await parley.get('/metrics')
    assert.match(text, /^parley_quota_rejections_total\{quota="open_jobs"\} 2$/m)
  })

  test('a request that repeats an accepted one gets its jobs although the quota is reached', async (t) => {
    const { parley } = await startStage(t, {
      settings: { tiers: { user_go: { ...UNLIMITED_READS.user_go, max_open_jobs: 2 } } },
      script: () => reply.stall(),
    })
    const key = await parley.key('user_go', 'acme')
    const headers = { 'idempotency-key': 'order' }
    const ids = enqueued(await parley.post(BATCHES, [job(), job()], key, headers), 2)
    refused(await parley.post(BATCHES, [job()], key, { 'idempotency-key': 'other' }), 403)
    assert.deepEqual(enqueued(await parley.post(BATCHES, [job(), job()], key, headers), 2), ids)
  })

  test('concurrent creates do not exceed the quota of open jobs', async (t) => {
    const { parley } = await startStage(t, {
      settings: limited({ max_open_jobs: 5 }),
      script: () => reply.stall(),
    })
    const key = await parley.key('user_go', 'acme')
    const answers = await Promise.all(Array.from({ length: 20 }, () => parley.post(BATCHES, [job()], key)))
    assert.equal(answers.filter(({ status }) => status === 202).length, 5)
    assert.equal(answers.filter(({ status }) => status === 403).length, 15)
    assert.equal((await parley.store.quotaUse('acme')).openJobs, 5)
  })

  test('a create over the quota calls no model, and takes nothing of a monthly cap', async (t) => {
    const { parley, models } = await startStage(t, {
      settings: limited({ max_open_jobs: 0, max_monthly_jobs: 1 }),
    })
    const key = await parley.key('user_go', 'acme')
    for (let time = 0; time < 3; time++) {
      assert.match(refused(await parley.post(MESSAGES, job(), key), 403).message, /^Quota reached/)
    }
    assert.equal(models.requests.length, 0)
    assert.equal(granted(await parley.get(ME, key), 200).usage.jobs, 0)
  })

  test('stored bytes: an answer may pass the quota, then creates are rejected until jobs are deleted', async (t) => {
    const { parley, clock } = await startStage(t, { settings: limited({ max_stored_bytes: 5000 }) })
    const key = await parley.key('user_go', 'acme')
    const tooLarge = refused(await parley.post(MESSAGES, texts(5000), key), 403)
    assert.match(
      tooLarge.message,
      /^Quota reached: tier user_go allows 5000 stored bytes, account acme has 0, and this request would add 50\d\d\.$/,
    )
    assert.match(tooLarge.details ?? '', /until the job expires or is deleted/)
    // The model echoes the text, so the text is stored twice.
    const created = await parley.post(MESSAGES, texts(4000), key)
    completed(created)
    clock.advance(PAUSE_MS)
    refused(await parley.post(MESSAGES, job(), key), 403)
    const { stored_bytes, limits } = granted(await parley.get(ME, key), 200)
    assert.ok(stored_bytes > 8000, `${stored_bytes} bytes`)
    assert.equal(limits.max_stored_bytes, 5000)
    assert.equal(await parley.store.deleteJob(created.body.data.job_id), 'deleted')
    clock.advance(PAUSE_MS)
    completed(await parley.post(MESSAGES, job(), key))
  })

  test("an account's own quota overrides its tier's, within two seconds", async (t) => {
    const { parley, clock } = await startStage(t, { settings: limited({ max_open_jobs: 0 }) })
    const key = await parley.key('user_go', 'acme')
    refused(await parley.post(MESSAGES, job(), key), 403)
    await parley.store.setCaps('acme', { ...NO_CAPS, openJobs: 2 })
    clock.advance(KEY_FRESH_MS)
    completed(await parley.post(MESSAGES, job(), key))
    await parley.store.setCaps('acme', { ...NO_CAPS, openJobs: 'none' })
    clock.advance(KEY_FRESH_MS)
    const { limits } = granted(await parley.get(ME, key), 200)
    assert.equal(limits.max_open_jobs, null)
  })

  test('tiers have quotas by default, and the highest has none', async (t) => {
    const { parley } = await startStage(t)
    const quotas = async (tier: 'user_free' | 'user_go' | 'user_pro' | 'user_max') => {
      const { limits } = granted(await parley.get(ME, await parley.key(tier)), 200)
      return [limits.max_open_jobs, limits.max_stored_bytes]
    }
    const gibibyte = 2 ** 30
    assert.deepEqual(await quotas('user_free'), [1000, gibibyte])
    assert.deepEqual(await quotas('user_go'), [10_000, 10 * gibibyte])
    assert.deepEqual(await quotas('user_pro'), [100_000, 100 * gibibyte])
    assert.deepEqual(await quotas('user_max'), [null, null])
  })
})
