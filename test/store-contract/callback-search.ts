/** What every store guarantees operators about callbacks: searching and replaying them. */
import assert from 'node:assert/strict'
import {
  type CallbackFilter,
  type CallbackSummary,
  MAX_ATTEMPTS_LENGTH,
} from '../../src/store/callback-store.ts'
import type { Page } from '../../src/store/chunked-search.ts'
import { attemptMade, CALLBACK, DELIVERED, dueAt, FAILED, owed, record, take } from './callback-fixtures.ts'
import { acceptance, addAccounts, DAY_MS, expiry, newJob, now, type On, settlement } from './fixtures.ts'

export function callbackSearchTests(on: On): void {
  on('a callback is found with all its attempts', async (store) => {
    const jobId = await owed(store)
    await take(store)
    await store.recordCallback(record(jobId, 1, dueAt(now.ms + 5000)))
    await take(store, { queue: 'retry', nowMs: now.ms + 5000 })
    const failed = attemptMade(2, { status: null, error: 'no response within 15 s', answer: null })
    await store.recordCallback({ jobId, attempt: failed, next: FAILED, nowMs: now.ms + 20_000 })
    assert.deepEqual(await store.findCallback(jobId), {
      jobId,
      account: 'acme',
      url: CALLBACK.url,
      state: 'failed',
      attempts: 2,
      dueAtMs: null,
      endedAtMs: now.ms + 20_000,
      last: failed,
      jobStatus: 'completed',
      headerNames: ['x-caller'],
      payloadJson: CALLBACK.payloadJson,
      event: null,
      inProgress: false,
      log: [attemptMade(1), failed],
    })
    assert.equal(await store.findCallback('no id'), null)
    assert.equal(await store.findCallback(newJob().id), null)
  })

  on('of very many attempts the last are stored', async (store) => {
    const jobId = await owed(store)
    const answer = 'é'.repeat(1024)
    const most = Math.ceil(MAX_ATTEMPTS_LENGTH / answer.length) + 5
    for (let attempt = 1; attempt <= most; attempt++) {
      await take(store, { queue: attempt === 1 ? 'first' : 'retry' })
      await store.recordCallback({
        jobId,
        attempt: attemptMade(attempt, { answer }),
        next: dueAt(now.ms),
        nowMs: now.ms,
      })
    }
    const found = await store.findCallback(jobId)
    assert.equal(found?.attempts, most)
    const first = found?.log[0]?.attempt ?? 0
    assert.ok(first > 1 && first < 20, `the first kept is ${first}`)
    assert.deepEqual(found?.log.at(-1), attemptMade(most, { answer }))
  })

  on('the next page follows also if the last job of the previous one was deleted', async (store) => {
    const [first, second, third] = [await owed(store), await owed(store), await owed(store)]
    const page = await store.searchCallbacks({ limit: 1 })
    assert.deepEqual([page.items[0]?.jobId, page.next], [third, third])
    assert.equal(await store.deleteJob(third), 'deleted')
    const { items: found, next } = await store.searchCallbacks({ limit: 10, beforeJobId: third })
    assert.deepEqual([found.map(({ jobId }) => jobId), next], [[second, first], null])
  })

  on('callbacks are listed newest first, by state and account, a page at a time', async (store) => {
    const [first, second, third] = [await owed(store), await owed(store), await owed(store)]
    const ids = async (filter: Partial<CallbackFilter>) => {
      const { items: found, ...rest } = await store.searchCallbacks({ limit: 10, ...filter })
      assert.deepEqual(rest, { complete: true, next: null })
      return found.map(({ jobId }) => jobId)
    }
    assert.deepEqual(await ids({}), [third, second, first])
    assert.deepEqual(await ids({ beforeJobId: third }), [second, first])
    assert.deepEqual(await ids({ account: 'other' }), [])
    assert.deepEqual(await ids({ account: 'acme', state: 'owed' }), [third, second, first])
    await take(store, { limit: 2 })
    await store.recordCallback(record(first, 1, FAILED))
    await store.recordCallback(record(second, 1, DELIVERED))
    assert.deepEqual(await ids({ state: 'failed' }), [first])
    assert.deepEqual(await ids({ state: 'delivered' }), [second])
    assert.deepEqual(await ids({ state: 'owed' }), [third])
    assert.equal((await store.searchCallbacks({ limit: 1 })).items.length, 1)
    const { items: found } = await store.searchCallbacks({ state: 'delivered', limit: 1 })
    assert.deepEqual(found[0], {
      jobId: second,
      account: 'acme',
      url: CALLBACK.url,
      state: 'delivered',
      attempts: 1,
      dueAtMs: null,
      endedAtMs: now.ms,
      last: attemptMade(1),
    })
  })

  on('a search for callbacks continues where the previous page ended', async (store) => {
    await addAccounts(store, 'rare')
    const jobs = Array.from({ length: 2100 }, (_, at) =>
      newJob({ callback: CALLBACK, account: at % 300 === 0 ? 'rare' : 'acme' }),
    )
    await store.accept(acceptance(jobs, { handedOff: true }))
    await Promise.all(jobs.map(({ id }) => store.settle(settlement({ jobId: id, attempt: 1 }))))
    const rare = jobs.filter(({ account }) => account === 'rare').map(({ id }) => id)
    const seen: string[] = []
    let next: string | null = null
    do {
      const page: Page<CallbackSummary> = await store.searchCallbacks({
        account: 'rare',
        state: 'owed',
        limit: 3,
        ...(next !== null && { beforeJobId: next }),
      })
      assert.equal(page.complete, true)
      seen.push(...page.items.map(({ jobId }) => jobId))
      next = page.next
    } while (next !== null)
    assert.deepEqual(seen, rare.toReversed())
    const failed = await store.searchCallbacks({ state: 'failed', limit: 3 })
    assert.deepEqual(failed, { items: [], complete: true, next: null })
  })

  on('an attempt in progress has no next attempt yet, found one by one or in a search', async (store) => {
    const jobId = await owed(store)
    const dueAt = async () => {
      const { items: found } = await store.searchCallbacks({ limit: 5 })
      return [...found, await store.findCallback(jobId)].map((callback) => callback?.dueAtMs)
    }
    assert.deepEqual(await dueAt(), Array(2).fill(now.ms))
    await take(store)
    assert.deepEqual(await dueAt(), Array(2).fill(null))
  })

  on('a replay makes a callback due now, with all its attempts before it', async (store) => {
    const [failed, delivered, waiting] = [await owed(store), await owed(store), await owed(store)]
    await take(store)
    await store.recordCallback(record(failed, 1, FAILED))
    await store.recordCallback(record(delivered, 1, DELIVERED))
    await store.recordCallback(record(waiting, 1, dueAt(now.ms + 1e6)))
    const later = now.ms + 60_000
    for (const jobId of [failed, delivered, waiting]) {
      assert.equal(await store.replayCallback(jobId, expiry(later)), 'replayed')
    }
    const taken = await take(store, { queue: 'retry', nowMs: later })
    assert.deepEqual(
      taken.map(({ attempt, tries, owedSinceMs }) => [attempt, tries, owedSinceMs]),
      Array(3).fill([2, 1, later]),
    )
    assert.equal(await store.replayCallback(failed, expiry(later)), 'in progress')
    assert.equal(await store.recordCallback(record(failed, 2, DELIVERED, later)), true)
    assert.equal((await store.findCallback(failed))?.state, 'delivered')
  })

  on('a callback whose job has expired, or that never existed, is not replayed', async (store) => {
    const jobId = await owed(store)
    await take(store)
    await store.recordCallback(record(jobId, 1, FAILED))
    assert.equal(await store.replayCallback(newJob().id, expiry()), 'unknown')
    assert.equal(await store.replayCallback('no id', expiry()), 'unknown')
    const expired = expiry(now.ms + 2 * DAY_MS)
    assert.equal(await store.replayCallback(jobId, expired), 'unknown')
    assert.equal(await store.replayFailedCallbacks({ limit: 10 }, expired), 0)
    assert.equal(await store.replayCallback(jobId, expiry(now.ms + 1)), 'replayed')
  })

  on('all that have failed are replayed, a limited number at a time', async (store) => {
    const jobIds: string[] = []
    for (let made = 0; made < 5; made++) jobIds.push(await owed(store))
    await take(store)
    for (const jobId of jobIds.slice(1)) await store.recordCallback(record(jobId, 1, FAILED))
    const later = now.ms + 1
    assert.equal(await store.replayFailedCallbacks({ account: 'other', limit: 9 }, expiry(later)), 0)
    const counts = [3, 3, 3].map((limit) => store.replayFailedCallbacks({ limit }, expiry(later)))
    const replayed = await Promise.all(counts)
    assert.equal(
      replayed.reduce((total, count) => total + count),
      4,
    )
    assert.equal((await take(store, { queue: 'retry', nowMs: later })).length, 4)
  })

  on('a callback that failed permanently is deleted with its job', async (store) => {
    const jobId = await owed(store)
    await take(store)
    await store.recordCallback(record(jobId, 1, FAILED))
    const later = now.ms + 30 * DAY_MS
    while (await store.expire(expiry(later)));
    assert.equal(await store.read('acme', jobId, expiry(later)), null)
    assert.equal(await store.findCallback(jobId), null)
  })
}
