/** What every store guarantees about quotas: the sums of an account are its open jobs and the bytes of its stored texts. */
import assert from 'node:assert/strict'
import type { Job, Outcome } from '../../src/job/job.ts'
import { CACHE_HIT_RECEIPT_JSON } from '../../src/store/results-without-run.ts'
import type { Store } from '../../src/store/store.ts'
import {
  acceptance,
  addAccounts,
  COMPLETED,
  claimNext,
  DAY_MS,
  newJob,
  now,
  type On,
  settlement,
  storeEnded,
} from './fixtures.ts'

const TEXTS = ['Grüße, 世界 🙂', 'a'.repeat(3000), '']
const callback = { url: 'https://example.com/', headers: { a: 'b' }, payloadJson: '{"text":"日本"}' }

export function requestBytes({ messagesJson, responseFormatJson, callbackJson: own }: Job): number {
  const callbackBytes = own === null ? 0 : Buffer.byteLength(own)
  return Buffer.byteLength(messagesJson) + Buffer.byteLength(responseFormatJson) + callbackBytes
}

export function outcomeBytes(outcome: Outcome, receiptJson: string): number {
  const text = outcome.status === 'completed' ? outcome.contentJson : JSON.stringify(outcome.error)
  return Buffer.byteLength(text) + Buffer.byteLength(receiptJson)
}

/** A job whose stored texts have more bytes than characters. */
export function largeJob(account: string, which: number): Job {
  const messages = [{ role: 'user', content: TEXTS[which % TEXTS.length] ?? '' }] as const
  return newJob({
    account,
    messages,
    responseFormat:
      which % 2 === 0
        ? { format: 'text' }
        : { format: 'json', schema: { type: 'object', description: 'größer' } },
    callback: which % 3 === 0 ? callback : null,
  })
}

export function quotaTests(on: On): void {
  const end = async (store: Store, job: Job, outcome: Outcome = COMPLETED, receiptJson = '{}') =>
    store.settle(settlement({ jobId: job.id, attempt: 1 }, { outcome, receiptJson }))

  on(
    'counts open jobs and stored bytes: of what was asked at once, of the outcome when it ends',
    async (store) => {
      const jobs = [0, 1, 2, 3].map((which) => largeJob('acme', which))
      const asked = jobs.reduce((sum, job) => sum + requestBytes(job), 0)
      assert.deepEqual(await store.quotaUse('acme'), { openJobs: 0, storedBytes: 0 })
      await store.accept(acceptance(jobs.slice(0, 2)))
      await store.accept(acceptance(jobs.slice(2), { handedOff: true }))
      await store.accept(acceptance([largeJob('other', 1)]))
      assert.deepEqual(await store.quotaUse('acme'), { openJobs: 4, storedBytes: asked })

      const receipt = JSON.stringify({ repair: { raw_text: 'ä'.repeat(100) } })
      const long: Outcome = { status: 'completed', contentJson: JSON.stringify('é'.repeat(500)) }
      assert.equal(await end(store, jobs[2] as Job, long, receipt), 'settled')
      assert.equal(await end(store, jobs[2] as Job, long, receipt), 'stale')
      const error: Outcome = { status: 'failed', error: { code: 'model_error', message: 'Nö.' } }
      assert.equal(await end(store, jobs[3] as Job, error), 'settled')
      const answered = outcomeBytes(long, receipt) + outcomeBytes(error, '{}')
      assert.deepEqual(await store.quotaUse('acme'), { openJobs: 2, storedBytes: asked + answered })

      const claimed = await claimNext(store, 'node-a', 5)
      await store.release(
        'node-a',
        claimed.map(({ id, attempt }) => ({ jobId: id, attempt })),
      )
      await store.rescue('node-b', now.ms)
      assert.deepEqual(await store.quotaUse('acme'), { openJobs: 2, storedBytes: asked + answered })
    },
  )

  on('counts a job that has ended, and none that was repeated', async (store) => {
    const [job, keyed] = [largeJob('acme', 3), largeJob('acme', 1)]
    await storeEnded(store, job, settlement({ jobId: job.id, attempt: 1 }))
    const bytes = requestBytes(job) + outcomeBytes(COMPLETED, '{}')
    assert.deepEqual(await store.quotaUse('acme'), { openJobs: 0, storedBytes: bytes })
    const idempotency = { key: 'k', fingerprint: 'f', untilMs: now.ms + DAY_MS }
    for (const one of [keyed, largeJob('acme', 1)]) await store.accept(acceptance([one], { idempotency }))
    assert.deepEqual(await store.quotaUse('acme'), { openJobs: 1, storedBytes: bytes + requestBytes(keyed) })
  })

  on('counts what a job stores that a cached response completed, until it is deleted', async (store) => {
    const [asked, cached] = [newJob(), { ...largeJob('acme', 3), reserved: 30 }]
    const cache = { fingerprint: 'f'.repeat(22), untilMs: now.ms + DAY_MS }
    await storeEnded(store, asked, settlement({ jobId: asked.id, attempt: 1 }, { cache }))
    await store.accept(acceptance([newJob({ reserved: 50 })]))
    const before = await store.quotaUse('acme')
    assert.equal(before.reserved, 50)
    const { fingerprint } = cache
    const accepted = await store.accept(acceptance([{ ...cached, callbackJson: null }], { fingerprint }))
    assert.equal(accepted.kind === 'accepted' && accepted.answered?.length, 1)
    const bytes =
      requestBytes({ ...cached, callbackJson: null }) + outcomeBytes(COMPLETED, CACHE_HIT_RECEIPT_JSON)
    const storedBytes = before.storedBytes + bytes
    assert.deepEqual(await store.quotaUse('acme'), { ...before, storedBytes })
    assert.equal(await store.deleteJob(cached.id), 'deleted')
    assert.deepEqual(await store.quotaUse('acme'), before)
  })

  on('ends with what is cancelled, and forgets what is deleted', async (store) => {
    const jobs = [0, 1, 2].map((which) => largeJob('acme', which))
    await store.accept(acceptance(jobs))
    for (const { id } of jobs.slice(0, 2)) assert.equal(await store.cancelJob(id, now.ms), 'cancelled')
    assert.equal((await store.quotaUse('acme')).openJobs, 1)
    const which = { account: 'acme', running: true, beforeJobId: 'ffffffff-ffff-ffff-ffff-ffffffffffff' }
    await store.cancelJobs({ ...which, limit: 10, nowMs: now.ms })
    const { openJobs, storedBytes } = await store.quotaUse('acme')
    assert.equal(openJobs, 0)
    assert.ok(storedBytes > jobs.reduce((sum, job) => sum + requestBytes(job), 0))
    for (const { id } of jobs) {
      assert.equal(await store.deleteJob(id), 'deleted')
      assert.equal(await store.deleteJob(id), 'unknown')
    }
    assert.deepEqual(await store.quotaUse('acme'), { openJobs: 0, storedBytes: 0 })
  })

  on('forgets what has expired, and an account that is deleted', async (store) => {
    const [old, deleted] = [largeJob('acme', 1), largeJob('other', 2)]
    await store.accept(acceptance([old, deleted], { handedOff: true }))
    for (const job of [old, deleted]) await end(store, job)
    const { next } = await store.deleteJobsOf('other', '00000000-0000-0000-0000-000000000000')
    assert.equal(next, null)
    await store.deleteAccount('other', 'deleted-1')
    assert.deepEqual(await store.quotaUse('other'), { openJobs: 0, storedBytes: 0 })
    now.ms += 30 * DAY_MS
    const young = largeJob('acme', 1)
    await store.accept(acceptance([young]))
    while (await store.expire({ nowMs: now.ms, retentionMs: DAY_MS }));
    assert.deepEqual(await store.quotaUse('acme'), { openJobs: 1, storedBytes: requestBytes(young) })
  })

  on('counts what an account left behind until that is deleted, beside a new account', async (store) => {
    const [left, young] = [largeJob('other', 1), largeJob('other', 2)]
    await storeEnded(store, left)
    await store.deleteAccount('other', 'deleted-1')
    await addAccounts(store, 'other')
    await store.accept(acceptance([young]))
    await store.deleteJob(left.id)
    assert.deepEqual(await store.quotaUse('other'), { openJobs: 1, storedBytes: requestBytes(young) })
  })

  on(
    'shows them with the accounts, and keeps them when the store is opened again',
    async (store, _t, place) => {
      await store.createKey({
        id: 'key_1',
        hash: 'h1',
        account: 'acme',
        tier: 'user_go',
        secret: 's',
        createdAtMs: now.ms,
        expiresAtMs: null,
      })
      const jobs = [largeJob('acme', 1), largeJob('acme', 2)]
      await store.accept(acceptance(jobs, { handedOff: true }))
      await end(store, jobs[0] as Job)
      const use = await store.quotaUse('acme')
      assert.equal(use.openJobs, 1)
      const listed = async (at: Store) => (await at.listAccounts({ limit: 1, nowMs: now.ms }))[0]?.quotaUse
      assert.deepEqual(await listed(store), use)
      await store.close()
      const again = await place.open()
      try {
        assert.deepEqual(await again.quotaUse('acme'), use)
        assert.deepEqual(await listed(again), use)
      } finally {
        await again.close()
      }
    },
  )
}
