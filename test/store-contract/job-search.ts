/** Tests what every store guarantees operators who search jobs. */
import assert from 'node:assert/strict'
import type { Outcome, Status } from '../../src/job/job.ts'
import { jobIdMs } from '../../src/job/job-id.ts'
import type { JobSearch } from '../../src/store/job-search-store.ts'
import type { Store } from '../../src/store/store.ts'
import { CALLBACK } from './callback-fixtures.ts'
import { allPages, DAY_MS, expiry, firstClaim, ids, newJob, now, type On, USAGE } from './fixtures.ts'
import { accept, addAccounts, addEnded, addHeld, addQueued, claimNext, settle } from './steps.ts'

const FAILED: Outcome = {
  status: 'failed',
  error: { code: 'model_error', message: 'It did not answer.', upstream_message: '"code":"timeout"' },
}
const RECEIPT = '{"form":"text","calls":[]}'

export function jobSearchTests(on: On): void {
  const search = (over: Partial<JobSearch> = {}): JobSearch => ({ limit: 10, expiry: expiry(), ...over })
  const found = async (store: Store, over: Partial<JobSearch> = {}) =>
    ids((await store.searchJobs(search(over))).jobs)

  on('jobs are found newest first, by account, model and time', async (store) => {
    const old = newJob({ account: 'other' })
    // IDs only grow, even between tests, and may be ahead of the time at which a test starts.
    now.ms = jobIdMs(old.id) + 60_000
    const [second, third] = [newJob({ model: 'gpt-5' }), newJob()]
    await accept(store, [old])
    await accept(store, [second, third])
    const newestFirst = [third.id, second.id, old.id]
    assert.deepEqual(await found(store), newestFirst)
    assert.deepEqual(await found(store, { account: 'acme' }), newestFirst.slice(0, 2))
    assert.deepEqual(await found(store, { account: 'acme', model: 'gpt-5' }), [second.id])
    assert.deepEqual(await found(store, { account: 'nobody' }), [])
    assert.deepEqual(await found(store, { fromMs: now.ms }), [third.id, second.id])
    assert.deepEqual(await found(store, { toMs: now.ms }), [old.id])
    assert.deepEqual(await found(store, { toMs: now.ms, beforeJobId: third.id }), [old.id])
    assert.deepEqual(await found(store, { fromMs: now.ms + 1 }), [])
    assert.deepEqual(await found(store, { beforeJobId: second.id, fromMs: now.ms }), [])
  })

  on('jobs are found by their status, as it changes', async (store) => {
    const jobs = await accept(store, [newJob(), newJob(), newJob(), newJob()])
    const [failing, ending, running, returned] = jobs
    const of = (status: Status) => found(store, { status })
    assert.deepEqual(await of('pending'), ids(jobs).toReversed())
    assert.deepEqual(await of('assigned'), [])
    await claimNext(store, 'node-a', 4)
    assert.deepEqual(await of('pending'), [])
    assert.deepEqual(await of('assigned'), ids(jobs).toReversed())
    await settle(store, failing, { outcome: FAILED })
    await settle(store, ending)
    // The job is queued again, but its status stays `assigned`.
    await store.release('node-a', [firstClaim(returned)])
    assert.deepEqual(await of('assigned'), [returned.id, running.id])
    assert.deepEqual(await of('pending'), [])
    assert.deepEqual(await of('failed'), [failing.id])
    assert.deepEqual(await of('completed'), [ending.id])
    assert.deepEqual(await found(store, { status: 'assigned', account: 'other' }), [])
  })

  on('a search continues where the previous page ended', async (store) => {
    await addAccounts(store, 'rare')
    const jobs = Array.from({ length: 2300 }, (_, at) =>
      newJob({ account: at % 100 === 0 ? 'rare' : 'acme' }),
    )
    await accept(store, jobs, { handedOff: true })
    const rare = ids(jobs.filter(({ account }) => account === 'rare')).toReversed()
    const seen = await allPages(async (after) => {
      const before = after !== null && { beforeJobId: after }
      const { jobs, ...page } = await store.searchJobs(search({ account: 'rare', limit: 9, ...before }))
      return { ...page, ids: ids(jobs) }
    })
    assert.deepEqual(seen, rare)
    const exact = await store.searchJobs(search({ account: 'rare', limit: rare.length }))
    assert.deepEqual([exact.jobs.length, exact.next], [rare.length, null])
  })

  on('a job is shown with all that is known of it', async (store) => {
    const createdAtMs = now.ms
    const responseFormat = { format: 'json', schema: { type: 'object' } } as const
    const deadlineMs = createdAtMs + 60_000
    const job = await addQueued(store, { responseFormat, priority: 'low', deadlineMs })
    /** Every search shows the summary. Only `findJob` adds the rest. */
    const summary = {
      ...{
        id: job.id,
        account: 'acme',
        tier: 'user_max',
        model: 'gpt-5-mini',
        createdAtMs,
        status: 'pending',
      },
      ...{ settledAtMs: null, errorCode: null, usage: null, callback: null, claimedAtMs: null, attempts: 0 },
    }
    const details = {
      ...{ format: 'json with schema', crashCount: 0, receiptJson: null, priority: 'low', deadlineMs },
      ...{ rerunOf: null, reruns: [], batch: null },
    }
    const waiting = { ...summary, ...details, queued: { route: '', waitsSinceMs: null } }
    assert.deepEqual(await store.findJob(job.id, expiry()), waiting)
    await claimNext(store, 'node-a', 1, createdAtMs + 100)
    const began = { status: 'assigned', claimedAtMs: createdAtMs + 100, attempts: 1 }
    const held = { ...waiting, ...began, queued: null }
    assert.deepEqual(await store.findJob(job.id, expiry()), held)
    const nowMs = createdAtMs + 900
    await settle(store, job, { outcome: FAILED, receiptJson: RECEIPT, nowMs })
    const ended = { status: 'failed', settledAtMs: nowMs, errorCode: 'model_error', usage: USAGE }
    assert.deepEqual(await store.findJob(job.id, expiry()), { ...held, ...ended, receiptJson: RECEIPT })
    assert.deepEqual((await store.searchJobs(search())).jobs, [{ ...summary, ...began, ...ended }])
    assert.equal(await store.findJob(newJob().id, expiry()), null)
    assert.equal(await store.findJob('no id', expiry()), null)
  })

  on('a job that was stored as it ended, or handed off, was claimed at once', async (store) => {
    const quick = await addEnded(store, {}, { nowMs: now.ms + 3 })
    const handed = newJob({ responseFormat: { format: 'json' } })
    await accept(store, [handed], { handedOff: true, nowMs: now.ms + 2 })
    const [first, second] = await Promise.all([quick.id, handed.id].map((id) => store.findJob(id, expiry())))
    assert.deepEqual([first?.claimedAtMs, first?.attempts, first?.format], [now.ms, 1, 'text'])
    assert.deepEqual([second?.claimedAtMs, second?.attempts, second?.format], [now.ms + 2, 1, 'json'])
  })

  on('the contents of a job are the texts that were stored', async (store) => {
    const job = await addHeld(store, { messages: [{ role: 'user', content: 'a\u0000b' }] })
    const none = { optionsJson: null, metadataJson: null }
    const asked = { messagesJson: job.messagesJson, responseFormatJson: '{"format":"text"}', ...none }
    const nothing = { contentJson: null, errorJson: null, receiptJson: null }
    assert.deepEqual(await store.jobContent(job.id, expiry()), { ...asked, ...nothing })
    const contentJson = '{"n":12345678901234567890,"x":1e400}'
    await settle(store, job, { outcome: { status: 'completed', contentJson }, receiptJson: RECEIPT })
    const ended = { contentJson, errorJson: null, receiptJson: RECEIPT }
    assert.deepEqual(await store.jobContent(job.id, expiry()), { ...asked, ...ended })
    assert.equal(await store.jobContent(newJob().id, expiry()), null)
    assert.equal(await store.jobContent('no id', expiry()), null)
  })

  on('an expired job is not shown, unless its callback is owed', async (store) => {
    const [plain, owing] = [await addEnded(store), await addEnded(store, { callback: CALLBACK })]
    const later = expiry(now.ms + 2 * DAY_MS)
    assert.deepEqual(await found(store), [owing.id, plain.id])
    const { jobs } = await store.searchJobs(search({ expiry: later }))
    assert.deepEqual(
      jobs.map(({ id, callback }) => [id, callback]),
      [[owing.id, 'owed']],
    )
    assert.equal(await store.findJob(plain.id, later), null)
    assert.equal(await store.jobContent(plain.id, later), null)
    assert.equal((await store.findJob(owing.id, later))?.callback, 'owed')
  })
}
