/** Tests what every store guarantees about pending callbacks, and about operators who search and replay them. */
import assert from 'node:assert/strict'
import type { Outcome } from '../../src/job/job.ts'
import { BODY_READ_BYTES, type CallbackFilter, MAX_ATTEMPTS_LENGTH } from '../../src/store/callback-store.ts'
import { AFTER_ALL, BEFORE_ALL } from '../../src/store/chunked-search.ts'
import type { Store } from '../../src/store/store.ts'
import { endWithReport } from './batches.ts'
import { attemptMade, CALLBACK, DELIVERED, dueAt, FAILED, owed, record, take } from './callback-fixtures.ts'
import { allPages, DAY_MS, expiry, ids, jobIds, newJob, now, type On, USAGE } from './fixtures.ts'
import { accept, addAccounts, addEnded, settle } from './steps.ts'

const severalOwed = async (store: Store, count: number) => {
  const owing: string[] = []
  for (let made = 0; made < count; made++) owing.push(await owed(store))
  return owing as [string, string, string, ...string[]]
}

export function callbackTests(on: On): void {
  on('settling a job with a callback makes it due, with all that is to be sent', async (store) => {
    const jobId = await owed(store)
    const [due, ...others] = await take(store)
    assert.ok(due)
    assert.equal(others.length, 0)
    const { bodyBytes, ...rest } = due
    const { url } = CALLBACK
    assert.deepEqual(rest, { jobId, attempt: 1, tries: 1, account: 'acme', url, owedSinceMs: now.ms })
    assert.equal(bodyBytes, JSON.stringify(CALLBACK).length + '"Hello back"'.length)
    const result = { contentJson: '"Hello back"', errorJson: null, usageJson: JSON.stringify(USAGE) }
    assert.deepEqual(await store.loadCallback(due), {
      callback: CALLBACK,
      view: { id: jobId, status: 'completed', createdAtMs: now.ms, ...result },
      endedAtMs: now.ms,
      secrets: { current: 'whsec_1', previous: null },
    })
  })

  on('sizes are in bytes, and an address is read whatever it contains', async (store) => {
    const url = `https://example.com/${'\\'.repeat(8000)}?q=\\"#ä`
    const callback = { url, headers: { 'x-a': '"' }, payloadJson: `"${'€'.repeat(50_000)}"` }
    const contentJson = `"${'é'.repeat(40_000)}"`
    await addEnded(store, { callback }, { outcome: { status: 'completed', contentJson } })
    const [due] = await take(store)
    assert.ok(due)
    assert.equal(due.url, url)
    assert.equal(due.bodyBytes, Buffer.byteLength(JSON.stringify(callback)) + Buffer.byteLength(contentJson))
    const body = await store.loadCallback(due)
    assert.deepEqual([body?.callback, body?.view.contentJson], [callback, contentJson])
  })

  on('bodies are loaded together, and only those that are taken under that attempt', async (store) => {
    await severalOwed(store, 30)
    const taken = await take(store, { limit: 100 })
    const [retaken, recorded, deferred] = taken
    assert.ok(retaken && recorded && deferred)
    await store.recordCallback(record(recorded.jobId, 1, dueAt(now.ms + 5000)))
    await store.deferCallbacks('node-a', [{ jobId: deferred.jobId, attempt: 1, dueAtMs: now.ms }])
    const asked = [...taken, { ...retaken, attempt: 2 }, { ...retaken, jobId: newJob().id }]
    const loaded = await Promise.all(asked.map((one) => store.loadCallback(one)))
    const expected = taken.map((one) => (one === recorded || one === deferred ? undefined : one.jobId))
    assert.deepEqual(
      loaded.map((body) => body?.view.id),
      [...expected, undefined, undefined],
    )
  })

  on('bodies larger than one read together are all loaded', async (store) => {
    const contentJson = `"${'x'.repeat(BODY_READ_BYTES / 2)}"`
    for (let made = 0; made < 4; made++) await owed(store, { outcome: { status: 'completed', contentJson } })
    const bodies = await Promise.all((await take(store)).map((due) => store.loadCallback(due)))
    const lengths = bodies.map((body) => body?.view.contentJson?.length)
    assert.deepEqual(lengths, Array(4).fill(contentJson.length))
  })

  on('a failed job owes its callback too, and a job without one owes nothing', async (store) => {
    await addEnded(store)
    const outcome: Outcome = { status: 'failed', error: { code: 'model_error', message: 'No.' } }
    const jobId = await owed(store, { outcome })
    const [due, ...others] = await take(store)
    assert.deepEqual([due?.jobId, others.length], [jobId, 0])
    const body = due && (await store.loadCallback(due))
    assert.deepEqual([body?.view.status, body?.view.errorJson], ['failed', JSON.stringify(outcome.error)])
  })

  on('a callback is taken by one node only, and again by that node when its lease ends', async (store) => {
    await owed(store)
    const leaseUntilMs = now.ms + 1000
    const taken = await Promise.all([1, 2, 3].map(() => take(store, { limit: 1, leaseUntilMs })))
    assert.equal(taken.flat().length, 1)
    const [again] = await take(store, { nowMs: leaseUntilMs })
    assert.deepEqual([again?.attempt, again?.tries], [2, 2])
  })

  on('the callbacks of a dead node are due at once', async (store, t, place) => {
    await owed(store)
    await take(store, { leaseUntilMs: now.ms + DAY_MS })
    await store.close()
    const next = await place.open()
    t.after(() => next.close())
    await next.rescue('node-b', now.ms)
    assert.equal((await take(next, { node: 'node-b' }))[0]?.attempt, 2)
  })

  on(
    'the result of an attempt decides when it is due, and a stale attempt decides nothing',
    async (store) => {
      const jobId = await owed(store)
      await take(store)
      const later = now.ms + 5000
      assert.equal(await store.recordCallback(record(jobId, 1, dueAt(later))), true)
      assert.deepEqual(await take(store, { queue: 'retry', nowMs: later - 1 }), [])
      assert.equal((await take(store, { queue: 'retry', nowMs: later })).length, 1)
      assert.equal(await store.recordCallback(record(jobId, 1, DELIVERED, later)), false)
      assert.equal(await store.recordCallback(record(jobId, 2, DELIVERED, later)), true)
      assert.equal(await store.recordCallback(record(jobId, 2, FAILED, later)), false)
      for (const queue of ['first', 'retry'] as const) {
        assert.deepEqual(await take(store, { queue, nowMs: later + 1e9 }), [])
      }
    },
  )

  on('many are recorded together, each with its own result', async (store) => {
    const owing = await severalOwed(store, 30)
    await take(store, { limit: 100 })
    const nexts = [DELIVERED, FAILED, dueAt(now.ms + 5000)]
    const recorded = await Promise.all(
      owing.map((jobId, index) =>
        store.recordCallback(record(jobId, index < 3 ? 9 : 1, nexts[index % 3] ?? DELIVERED)),
      ),
    )
    assert.deepEqual(recorded, [...Array(3).fill(false), ...Array(27).fill(true)])
    const found = await Promise.all(owing.map((jobId) => store.findCallback(jobId)))
    const states = owing.map((_, at) => (at < 3 ? 'owed' : ['delivered', 'failed', 'owed'][at % 3]))
    assert.deepEqual(
      found.map((callback) => callback?.state),
      states,
    )
  })

  on('first attempts and later ones are taken apart', async (store) => {
    const tried = await owed(store)
    await take(store)
    await store.recordCallback(record(tried, 1, dueAt(now.ms)))
    const untried = await owed(store)
    assert.deepEqual(jobIds(await take(store)), [untried])
    const [again] = await take(store, { queue: 'retry' })
    assert.deepEqual([again?.jobId, again?.attempt, again?.tries], [tried, 2, 2])
  })

  on('an attempt that our own shutdown cut off is stored and does not count', async (store) => {
    const jobId = await owed(store)
    await take(store)
    await store.recordCallback(record(jobId, 1, { kind: 'due', atMs: now.ms, counts: false }))
    const [again] = await take(store, { queue: 'retry' })
    assert.deepEqual([again?.attempt, again?.tries], [2, 1])
  })

  on('a deferred callback was not tried, and is due at the time given', async (store) => {
    const jobId = await owed(store)
    await take(store)
    const dueAtMs = now.ms + 700
    await store.deferCallbacks('node-b', [{ jobId, attempt: 1, dueAtMs: now.ms }])
    assert.deepEqual(await take(store), [], 'another node deferred it')
    await store.deferCallbacks('node-a', [{ jobId, attempt: 1, dueAtMs }])
    assert.equal(await store.recordCallback(record(jobId, 1, DELIVERED)), false)
    assert.deepEqual(await take(store, { nowMs: dueAtMs - 1 }), [])
    const [again] = await take(store, { nowMs: dueAtMs })
    assert.deepEqual([again?.attempt, again?.tries], [1, 1])
  })

  /** Defers these callbacks by a second. The returned function takes some of them again before that time. */
  const defer = async (store: Store, deferred: readonly string[]) => {
    await take(store)
    await store.deferCallbacks(
      'node-a',
      deferred.map((jobId) => ({ jobId, attempt: 1, dueAtMs: now.ms + 1000 })),
    )
    return (wanted: readonly string[]) =>
      store.takeDeferred({
        node: 'node-a',
        deferred: wanted.map((jobId) => ({ jobId, attempts: 0 })),
        leaseUntilMs: now.ms + 5000,
      })
  }

  on('a deferred callback is taken before it is due, unless it was tried since', async (store) => {
    const deferred = [await owed(store), await owed(store)]
    const takeAgain = await defer(store, deferred)
    await take(store, { nowMs: now.ms + 1000, limit: 1 })
    const [again, ...others] = await takeAgain(deferred)
    assert.deepEqual([again?.attempt, again?.tries, others.length], [1, 1, 0])
    assert.deepEqual(await takeAgain(deferred), [])
    assert.equal(await store.recordCallback(record(again?.jobId ?? '', 1, DELIVERED)), true)
  })

  on('deferred callbacks are taken in the order given', async (store) => {
    const deferred = await severalOwed(store, 3)
    const takeAgain = await defer(store, deferred)
    assert.deepEqual(jobIds(await takeAgain(deferred.toReversed())), deferred.toReversed())
  })

  on('the secrets are those in force when it is loaded', async (store) => {
    await owed(store)
    const [due] = await take(store)
    await store.rotateSecret('acme', 'whsec_2', now.ms)
    const body = due && (await store.loadCallback(due))
    const previous = { secret: 'whsec_1', rotatedAtMs: now.ms }
    assert.deepEqual(body?.secrets, { current: 'whsec_2', previous })
  })

  on('the depth counts what is owed and what has failed', async (store) => {
    assert.deepEqual(await store.callbackDepth(), { owed: 0, failed: 0, earliestDueMs: null })
    const [one] = await severalOwed(store, 3)
    await take(store, { limit: 3 })
    await store.recordCallback(record(one, 1, FAILED))
    assert.deepEqual(await store.callbackDepth(), { owed: 2, failed: 1, earliestDueMs: now.ms + 1000 })
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

export function callbackSearchTests(on: On): void {
  on('a callback is found with all its attempts', async (store) => {
    const jobId = await owed(store)
    await take(store)
    await store.recordCallback(record(jobId, 1, dueAt(now.ms + 5000)))
    await take(store, { queue: 'retry', nowMs: now.ms + 5000 })
    const failed = attemptMade(2, { status: null, error: 'no response within 15 s', answer: null })
    await store.recordCallback({ jobId, attempt: failed, next: FAILED, nowMs: now.ms + 20_000 })
    const { url, payloadJson } = CALLBACK
    assert.deepEqual(await store.findCallback(jobId), {
      ...{ jobId, account: 'acme', url, jobStatus: 'completed', headerNames: ['x-caller'], payloadJson },
      ...{ state: 'failed', attempts: 2, dueAtMs: null, endedAtMs: now.ms + 20_000, event: null },
      ...{ last: failed, inProgress: false, log: [attemptMade(1), failed] },
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
      const made = attemptMade(attempt, { answer })
      await store.recordCallback({ jobId, attempt: made, next: dueAt(now.ms), nowMs: now.ms })
    }
    const found = await store.findCallback(jobId)
    assert.equal(found?.attempts, most)
    const first = found?.log[0]?.attempt ?? 0
    assert.ok(first > 1 && first < 20, `the first kept is ${first}`)
    assert.deepEqual(found?.log.at(-1), attemptMade(most, { answer }))
  })

  on('the next page follows also if the last job of the previous one was deleted', async (store) => {
    const [first, second, third] = await severalOwed(store, 3)
    const page = await store.searchCallbacks({ limit: 1 })
    assert.deepEqual([page.items[0]?.jobId, page.next], [third, third])
    assert.equal(await store.deleteJob(third), 'deleted')
    const { items: found, next } = await store.searchCallbacks({ limit: 10, beforeJobId: third })
    assert.deepEqual([jobIds(found), next], [[second, first], null])
  })

  on('callbacks are listed newest first, by state and account, a page at a time', async (store) => {
    const [first, second, third] = await severalOwed(store, 3)
    const search = async (filter: Partial<CallbackFilter>) => {
      const { items: found, ...rest } = await store.searchCallbacks({ limit: 10, ...filter })
      assert.deepEqual(rest, { complete: true, next: null })
      return jobIds(found)
    }
    assert.deepEqual(await search({}), [third, second, first])
    assert.deepEqual(await search({ beforeJobId: third }), [second, first])
    assert.deepEqual(await search({ account: 'other' }), [])
    assert.deepEqual(await search({ account: 'acme', state: 'owed' }), [third, second, first])
    await take(store, { limit: 2 })
    await store.recordCallback(record(first, 1, FAILED))
    await store.recordCallback(record(second, 1, DELIVERED))
    assert.deepEqual(await search({ state: 'failed' }), [first])
    assert.deepEqual(await search({ state: 'delivered' }), [second])
    assert.deepEqual(await search({ state: 'owed' }), [third])
    assert.equal((await store.searchCallbacks({ limit: 1 })).items.length, 1)
    const { items: found } = await store.searchCallbacks({ state: 'delivered', limit: 1 })
    const delivered = { state: 'delivered', attempts: 1, dueAtMs: null, endedAtMs: now.ms }
    const about = { jobId: second, account: 'acme', url: CALLBACK.url, last: attemptMade(1) }
    assert.deepEqual(found[0], { ...about, ...delivered })
  })

  on('a search for callbacks continues where the previous page ended', async (store) => {
    await addAccounts(store, 'rare')
    const jobs = Array.from({ length: 2100 }, (_, at) =>
      newJob({ callback: CALLBACK, account: at % 300 === 0 ? 'rare' : 'acme' }),
    )
    await accept(store, jobs, { handedOff: true })
    await Promise.all(jobs.map((job) => settle(store, job)))
    const seen = await allPages(async (after) => {
      const { items, ...page } = await store.searchCallbacks({
        ...{ account: 'rare', state: 'owed', limit: 3 },
        ...(after !== null && { beforeJobId: after }),
      })
      return { ...page, ids: jobIds(items) }
    })
    assert.deepEqual(seen, ids(jobs.filter(({ account }) => account === 'rare')).toReversed())
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
    const all = await severalOwed(store, 3)
    await take(store)
    const nexts = [FAILED, DELIVERED, dueAt(now.ms + 1e6)]
    for (const [at, jobId] of all.entries())
      await store.recordCallback(record(jobId, 1, nexts[at] ?? DELIVERED))
    const later = now.ms + 60_000
    for (const jobId of all) assert.equal(await store.replayCallback(jobId, expiry(later)), 'replayed')
    const taken = await take(store, { queue: 'retry', nowMs: later })
    const tries = taken.map(({ attempt, tries, owedSinceMs }) => [attempt, tries, owedSinceMs])
    assert.deepEqual(tries, Array(3).fill([2, 1, later]))
    const [failed] = all
    assert.equal(await store.replayCallback(failed, expiry(later)), 'in progress')
    assert.equal(await store.recordCallback(record(failed, 2, DELIVERED, later)), true)
    assert.equal((await store.findCallback(failed))?.state, 'delivered')
  })

  on('a callback whose job has expired, or that never existed, is not replayed', async (store) => {
    const jobId = await owed(store)
    await take(store)
    await store.recordCallback(record(jobId, 1, FAILED))
    const expired = expiry(now.ms + 2 * DAY_MS)
    assert.equal(await store.replayCallback(newJob().id, expiry()), 'unknown')
    assert.equal(await store.replayCallback('no id', expiry()), 'unknown')
    assert.equal(await store.replayCallback(jobId, expired), 'unknown')
    assert.equal(await store.replayFailedCallbacks({ limit: 10 }, expired), 0)
    assert.equal(await store.replayCallback(jobId, expiry(now.ms + 1)), 'replayed')
  })

  on('all that have failed are replayed, a limited number at a time', async (store) => {
    const [, ...failed] = await severalOwed(store, 5)
    await take(store)
    for (const jobId of failed) await store.recordCallback(record(jobId, 1, FAILED))
    const later = now.ms + 1
    assert.equal(await store.replayFailedCallbacks({ account: 'other', limit: 9 }, expiry(later)), 0)
    const counts = [3, 3, 3].map((limit) => store.replayFailedCallbacks({ limit }, expiry(later)))
    const replayed = (await Promise.all(counts)).reduce((total, count) => total + count)
    assert.equal(replayed, 4)
    assert.equal((await take(store, { queue: 'retry', nowMs: later })).length, 4)
  })

  on('the report of a batch is listed, and is neither a use nor a job to rerun', async (store) => {
    const [id] = await endWithReport(store)
    const [listed] = (await store.searchCallbacks({ state: 'owed', limit: 10 })).items
    assert.deepEqual([listed?.jobId, listed?.account], [id, 'acme'])
    assert.deepEqual(await store.jobUses({ afterId: BEFORE_ALL, beforeId: AFTER_ALL, limit: 10 }), [])
    assert.equal(await store.jobToRerun(id, expiry()), null)
  })
}
