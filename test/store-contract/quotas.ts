/**
 * Tests what every store guarantees about quotas: the sums of an account are its open jobs and the bytes of its stored texts.
 */
import assert from 'node:assert/strict'
import type { Job, Outcome } from '../../src/job/job.ts'
import { CACHE_HIT_RECEIPT_JSON } from '../../src/job/results-without-call.ts'
import { AFTER_ALL, BEFORE_ALL } from '../../src/store/chunked-search.ts'
import type { Store } from '../../src/store/store.ts'
import { acceptance, COMPLETED, claimOf, DAY_MS, newJob, now, type On } from './fixtures.ts'
import { accept, addAccounts, addEnded, addQueued, claimNext, settle, storeEnded } from './steps.ts'

const TEXTS = ['Grüße, 世界 🙂', 'a'.repeat(3000), '']
const callback = { url: 'https://example.com/', headers: { a: 'b' }, payloadJson: '{"text":"日本"}' }
const BIG_SCHEMA = { type: 'object', description: 'größer' }

export function requestBytes({ messagesJson, responseFormatJson, callbackJson: own }: Job): number {
  const callbackBytes = own === null ? 0 : Buffer.byteLength(own)
  return Buffer.byteLength(messagesJson) + Buffer.byteLength(responseFormatJson) + callbackBytes
}

export const bytesOf = (jobs: readonly Job[]) => jobs.reduce((sum, job) => sum + requestBytes(job), 0)

export function outcomeBytes(outcome: Outcome, receiptJson: string): number {
  const text = outcome.status === 'completed' ? outcome.contentJson : JSON.stringify(outcome.error)
  return Buffer.byteLength(text) + Buffer.byteLength(receiptJson)
}

/** The job's stored texts have more bytes than characters. */
export function largeJob(account: string, which: number): Job {
  return newJob({
    account,
    messages: [{ role: 'user', content: TEXTS[which % TEXTS.length] ?? '' }],
    responseFormat: which % 2 === 0 ? { format: 'text' } : { format: 'json', schema: BIG_SCHEMA },
    callback: which % 3 === 0 ? callback : null,
  })
}

export function quotaTests(on: On): void {
  const NONE = { openJobs: 0, storedBytes: 0 }
  const assertUse = async (store: Store, openJobs: number, storedBytes: number, account = 'acme') =>
    assert.deepEqual(await store.quotaUse(account), { openJobs, storedBytes })

  on(
    'counts open jobs and stored bytes: of what was asked at once, of the outcome when it ends',
    async (store) => {
      const jobs = [0, 1, 2, 3].map((which) => largeJob('acme', which)) as [Job, Job, Job, Job]
      await assertUse(store, 0, 0)
      await accept(store, jobs.slice(0, 2))
      await accept(store, jobs.slice(2), { handedOff: true })
      await accept(store, [largeJob('other', 1)])
      await assertUse(store, 4, bytesOf(jobs))

      const receiptJson = JSON.stringify({ repair: { raw_text: 'ä'.repeat(100) } })
      const outcome: Outcome = { status: 'completed', contentJson: JSON.stringify('é'.repeat(500)) }
      for (const end of ['settled', 'stale'])
        assert.equal(await settle(store, jobs[2], { outcome, receiptJson }), end)
      const failed: Outcome = { status: 'failed', error: { code: 'model_error', message: 'Nö.' } }
      assert.equal(await settle(store, jobs[3], { outcome: failed }), 'settled')
      const answered = outcomeBytes(outcome, receiptJson) + outcomeBytes(failed, '{}')
      await assertUse(store, 2, bytesOf(jobs) + answered)

      await store.release('node-a', (await claimNext(store, 'node-a', 5)).map(claimOf))
      await store.rescue('node-b', now.ms)
      await assertUse(store, 2, bytesOf(jobs) + answered)
    },
  )

  on('counts a job that has ended, and none that was repeated', async (store) => {
    const [job, keyed] = [largeJob('acme', 3), largeJob('acme', 1)]
    await storeEnded(store, job)
    const bytes = requestBytes(job) + outcomeBytes(COMPLETED, '{}')
    await assertUse(store, 0, bytes)
    const idempotency = { key: 'k', fingerprint: 'f', untilMs: now.ms + DAY_MS }
    for (const one of [keyed, largeJob('acme', 1)]) await store.accept(acceptance([one], { idempotency }))
    await assertUse(store, 1, bytes + requestBytes(keyed))
  })

  on('counts what a job stores that a cached response completed, until it is deleted', async (store) => {
    const cached = { ...largeJob('acme', 3), callbackJson: null, reserved: 30 }
    const cache = { fingerprint: 'f'.repeat(22), untilMs: now.ms + DAY_MS }
    await addEnded(store, {}, { cache })
    await addQueued(store, { reserved: 50 })
    const before = await store.quotaUse('acme')
    assert.equal(before.reserved, 50)
    const accepted = await store.accept(acceptance([cached], { fingerprint: cache.fingerprint }))
    assert.equal(accepted.kind === 'accepted' && accepted.answered?.length, 1)
    const bytes = requestBytes(cached) + outcomeBytes(COMPLETED, CACHE_HIT_RECEIPT_JSON)
    const storedBytes = before.storedBytes + bytes
    assert.deepEqual(await store.quotaUse('acme'), { ...before, storedBytes })
    assert.equal(await store.deleteJob(cached.id), 'deleted')
    assert.deepEqual(await store.quotaUse('acme'), before)
  })

  on('ends with what is cancelled, and forgets what is deleted', async (store) => {
    const jobs = await accept(
      store,
      [0, 1, 2].map((which) => largeJob('acme', which)),
    )
    for (const { id } of jobs.slice(0, 2)) assert.equal(await store.cancelJob(id, now.ms), 'cancelled')
    assert.equal((await store.quotaUse('acme')).openJobs, 1)
    const which = { account: 'acme', running: true, beforeJobId: AFTER_ALL }
    await store.cancelJobs({ ...which, limit: 10, nowMs: now.ms })
    const { openJobs, storedBytes } = await store.quotaUse('acme')
    assert.equal(openJobs, 0)
    assert.ok(storedBytes > bytesOf(jobs))
    for (const { id } of jobs) {
      for (const deleted of ['deleted', 'unknown']) assert.equal(await store.deleteJob(id), deleted)
    }
    assert.deepEqual(await store.quotaUse('acme'), NONE)
  })

  on('forgets what has expired, and an account that is deleted', async (store) => {
    for (const job of [largeJob('acme', 1), largeJob('other', 2)]) await storeEnded(store, job)
    assert.equal((await store.deleteJobsOf('other', BEFORE_ALL)).next, null)
    await store.deleteAccount('other', 'deleted-1')
    assert.deepEqual(await store.quotaUse('other'), NONE)
    now.ms += 30 * DAY_MS
    const [young] = await accept(store, [largeJob('acme', 1)])
    while (await store.expire({ nowMs: now.ms, retentionMs: DAY_MS }));
    await assertUse(store, 1, requestBytes(young))
  })

  on('counts what an account left behind until that is deleted, beside a new account', async (store) => {
    const left = largeJob('other', 1)
    await storeEnded(store, left)
    await store.deleteAccount('other', 'deleted-1')
    await addAccounts(store, 'other')
    const [young] = await accept(store, [largeJob('other', 2)])
    await store.deleteJob(left.id)
    await assertUse(store, 1, requestBytes(young), 'other')
  })
}
