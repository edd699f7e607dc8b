/** What every store guarantees operators who search jobs. */
import assert from 'node:assert/strict'
import type { Callback, Outcome, Status } from '../../src/job/job.ts'
import { jobIdMs } from '../../src/job/job-id.ts'
import type { JobSearch } from '../../src/store/job-search-store.ts'
import type { Store } from '../../src/store/store.ts'
import {
  acceptance,
  addAccounts,
  claimNext,
  claimOf,
  DAY_MS,
  expiry,
  ids,
  newJob,
  now,
  type On,
  settlement,
  storeEnded,
} from './fixtures.ts'

const FAILED: Outcome = {
  status: 'failed',
  error: { code: 'model_error', message: 'It did not answer.', upstream_message: '"code":"timeout"' },
}
const RECEIPT = '{"form":"text","calls":[]}'

export function jobSearchTests(on: On): void {
  const search = (over: Partial<JobSearch> = {}): JobSearch => ({ limit: 10, expiry: expiry(), ...over })
  const found = async (store: Store, over: Partial<JobSearch> = {}) =>
    (await store.searchJobs(search(over))).jobs.map(({ id }) => id)

  on('jobs are found newest first, by account, model and time', async (store) => {
    const old = newJob({ account: 'other' })
    // IDs only grow, even between tests, and may be ahead of the time at which a test starts.
    now.ms = jobIdMs(old.id) + 60_000
    const [second, third] = [newJob({ model: 'gpt-5' }), newJob()]
    await store.accept(acceptance([old]))
    await store.accept(acceptance([second, third]))
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
    const jobs = [newJob(), newJob(), newJob(), newJob()]
    const [failing, ending, running, returned] = ids(jobs)
    await store.accept(acceptance(jobs))
    const of = (status: Status) => found(store, { status })
    assert.deepEqual(await of('pending'), ids(jobs).toReversed())
    assert.deepEqual(await of('assigned'), [])
    const claimed = await claimNext(store, 'node-a', 4)
    assert.deepEqual(await of('pending'), [])
    assert.deepEqual(await of('assigned'), ids(jobs).toReversed())
    const claims = new Map(claimed.map((job) => [job.id, claimOf(job)]))
    const claim = (id = '') => claims.get(id) ?? { jobId: '', attempt: 0 }
    await store.settle(settlement(claim(failing), { outcome: FAILED }))
    await store.settle(settlement(claim(ending)))
    // It is queued again, but still reads `assigned`.
    await store.release('node-a', [claim(returned)])
    assert.deepEqual(await of('assigned'), [returned, running])
    assert.deepEqual(await of('pending'), [])
    assert.deepEqual(await of('failed'), [failing])
    assert.deepEqual(await of('completed'), [ending])
    assert.deepEqual(await found(store, { status: 'assigned', account: 'other' }), [])
  })

  on('a search continues where the previous page ended', async (store) => {
    await addAccounts(store, 'rare')
    const jobs = Array.from({ length: 2300 }, (_, at) =>
      newJob({ account: at % 100 === 0 ? 'rare' : 'acme' }),
    )
    await store.accept(acceptance(jobs, { handedOff: true }))
    const rare = ids(jobs.filter(({ account }) => account === 'rare')).toReversed()
    const seen: string[] = []
    let next: string | null = null
    do {
      const page = await store.searchJobs(
        search({ account: 'rare', limit: 9, ...(next !== null && { beforeJobId: next }) }),
      )
      assert.equal(page.complete, true)
      seen.push(...page.jobs.map(({ id }) => id))
      next = page.next
    } while (next !== null)
    assert.deepEqual(seen, rare)
    const exact = await store.searchJobs(search({ account: 'rare', limit: rare.length }))
    assert.deepEqual([exact.jobs.length, exact.next], [rare.length, null])
  })

  on('a job is shown with all that is known of it', async (store) => {
    const createdAtMs = now.ms
    const responseFormat = { format: 'json', schema: { type: 'object' } } as const
    const deadlineMs = createdAtMs + 60_000
    const job = newJob({ responseFormat, priority: 'low', deadlineMs })
    await store.accept(acceptance([job]))
    const common = { id: job.id, account: 'acme', tier: 'user_max', model: 'gpt-5-mini', createdAtMs }
    const open = { settledAtMs: null, errorCode: null, usage: null, callback: null, receiptJson: null }
    const format = 'json with schema'
    const waiting = {
      ...common,
      ...open,
      format,
      status: 'pending',
      claimedAtMs: null,
      attempts: 0,
      crashCount: 0,
      queued: { route: '', waitsSinceMs: null },
      priority: 'low',
      deadlineMs,
      rerunOf: null,
      reruns: [],
      batch: null,
    }
    assert.deepEqual(await store.findJob(job.id, expiry()), waiting)
    const [claimed] = await claimNext(store, 'node-a', 1, createdAtMs + 100)
    assert.ok(claimed)
    const began = { status: 'assigned', claimedAtMs: createdAtMs + 100, attempts: 1 }
    const held = { ...waiting, ...began, queued: null }
    assert.deepEqual(await store.findJob(job.id, expiry()), held)
    const settled = settlement(claimOf(claimed), {
      outcome: FAILED,
      receiptJson: RECEIPT,
      nowMs: createdAtMs + 900,
    })
    await store.settle(settled)
    const ended = { status: 'failed', settledAtMs: createdAtMs + 900, errorCode: 'model_error' }
    const known = { ...held, ...ended, usage: settled.usage, receiptJson: RECEIPT }
    assert.deepEqual(await store.findJob(job.id, expiry()), known)
    const {
      format: _,
      crashCount: __,
      receiptJson: ___,
      queued: ____,
      priority: _____,
      deadlineMs: ______,
      rerunOf: _______,
      reruns: ________,
      batch: _________,
      ...summary
    } = known
    assert.deepEqual((await store.searchJobs(search())).jobs, [summary])
    assert.equal(await store.findJob(newJob().id, expiry()), null)
    assert.equal(await store.findJob('no id', expiry()), null)
  })

  on('a job that was stored as it ended, or handed off, was claimed at once', async (store) => {
    const [quick, handed] = [newJob(), newJob({ responseFormat: { format: 'json' } })]
    await storeEnded(store, quick, settlement({ jobId: quick.id, attempt: 1 }, { nowMs: now.ms + 3 }))
    await store.accept(acceptance([handed], { handedOff: true, nowMs: now.ms + 2 }))
    const [first, second] = await Promise.all([quick.id, handed.id].map((id) => store.findJob(id, expiry())))
    assert.deepEqual([first?.claimedAtMs, first?.attempts, first?.format], [now.ms, 1, 'text'])
    assert.deepEqual([second?.claimedAtMs, second?.attempts, second?.format], [now.ms + 2, 1, 'json'])
  })

  on('the contents of a job are the texts that were stored', async (store) => {
    const messagesJson = '[{"role":"user","content":"a\\u0000b"}]'
    const job = { ...newJob(), messagesJson }
    await store.accept(acceptance([job], { handedOff: true }))
    const asked = {
      messagesJson,
      responseFormatJson: '{"format":"text"}',
      optionsJson: null,
      metadataJson: null,
    }
    const nothing = { contentJson: null, errorJson: null, receiptJson: null }
    assert.deepEqual(await store.jobContent(job.id, expiry()), { ...asked, ...nothing })
    const outcome: Outcome = { status: 'completed', contentJson: '{"n":12345678901234567890,"x":1e400}' }
    const settled = settlement({ jobId: job.id, attempt: 1 }, { outcome, receiptJson: RECEIPT })
    await store.settle(settled)
    const ended = { contentJson: outcome.contentJson, errorJson: null, receiptJson: RECEIPT }
    assert.deepEqual(await store.jobContent(job.id, expiry()), { ...asked, ...ended })
    assert.equal(await store.jobContent(newJob().id, expiry()), null)
    assert.equal(await store.jobContent('no id', expiry()), null)
  })

  on('an expired job is not shown, unless its callback is owed', async (store) => {
    const callback: Callback = { url: 'https://example.com/', headers: {}, payloadJson: '{}' }
    const [plain, owing] = [newJob(), newJob({ callback })]
    await store.accept(acceptance([plain, owing], { handedOff: true }))
    for (const { id } of [plain, owing]) await store.settle(settlement({ jobId: id, attempt: 1 }))
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
