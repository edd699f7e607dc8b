/** What every store guarantees about owed callbacks. */
import assert from 'node:assert/strict'
import type { Outcome } from '../../src/job/job.ts'
import { BODY_READ_BYTES } from '../../src/store/callback-store.ts'
import { CALLBACK, DELIVERED, dueAt, FAILED, owed, record, take } from './callback-fixtures.ts'
import { acceptance, DAY_MS, newJob, now, type On, settlement, storeEnded, USAGE } from './fixtures.ts'

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
    assert.deepEqual(await store.loadCallback(due), {
      callback: CALLBACK,
      view: {
        id: jobId,
        status: 'completed',
        createdAtMs: now.ms,
        contentJson: '"Hello back"',
        errorJson: null,
        usageJson: JSON.stringify(USAGE),
      },
      endedAtMs: now.ms,
      secrets: { current: 'whsec_1', previous: null },
    })
  })

  on('sizes are in bytes, and an address is read whatever it contains', async (store) => {
    const url = `https://example.com/${'x'.repeat(8000)}?q=\\"#ä`
    const callback = { url, headers: { 'x-a': '"' }, payloadJson: `"${'€'.repeat(50_000)}"` }
    const contentJson = `"${'é'.repeat(40_000)}"`
    const job = newJob({ callback })
    const outcome: Outcome = { status: 'completed', contentJson }
    await storeEnded(store, job, settlement({ jobId: job.id, attempt: 1 }, { outcome }))
    const [due] = await take(store)
    assert.ok(due)
    assert.equal(due.url, url)
    const stored = JSON.stringify(callback)
    assert.equal(due.bodyBytes, Buffer.byteLength(stored) + Buffer.byteLength(contentJson))
    const body = await store.loadCallback(due)
    assert.deepEqual([body?.callback, body?.view.contentJson], [callback, contentJson])
  })

  on('bodies are loaded together, and only those that are taken under that attempt', async (store) => {
    for (let made = 0; made < 30; made++) await owed(store)
    const taken = await take(store, { limit: 100 })
    const [retaken, recorded, deferred] = taken
    assert.ok(retaken && recorded && deferred)
    await store.recordCallback(record(recorded.jobId, 1, dueAt(now.ms + 5000)))
    await store.deferCallbacks('node-a', [{ jobId: deferred.jobId, attempt: 1, dueAtMs: now.ms }])
    const unknown = { ...retaken, jobId: newJob().id }
    const asked = [...taken, { ...retaken, attempt: 2 }, unknown]
    const loaded = await Promise.all(asked.map((one) => store.loadCallback(one)))
    const ids = taken.map(({ jobId }) =>
      jobId === recorded.jobId || jobId === deferred.jobId ? undefined : jobId,
    )
    assert.deepEqual(
      loaded.map((body) => body?.view.id),
      [...ids, undefined, undefined],
    )
  })

  on('bodies larger than one read together are all loaded', async (store) => {
    const contentJson = `"${'x'.repeat(BODY_READ_BYTES / 2)}"`
    const jobs = [1, 2, 3, 4].map(() => newJob({ callback: CALLBACK }))
    const outcome: Outcome = { status: 'completed', contentJson }
    for (const { id, ...job } of jobs) {
      await storeEnded(store, { id, ...job }, settlement({ jobId: id, attempt: 1 }, { outcome }))
    }
    const bodies = await Promise.all((await take(store)).map((due) => store.loadCallback(due)))
    assert.deepEqual(
      bodies.map((body) => body?.view.contentJson?.length),
      jobs.map(() => contentJson.length),
    )
  })

  on('a failed job owes its callback too, and a job without one owes nothing', async (store) => {
    const plain = newJob()
    await store.accept(acceptance([plain], { handedOff: true }))
    await store.settle(settlement({ jobId: plain.id, attempt: 1 }))
    const outcome: Outcome = { status: 'failed', error: { code: 'model_error', message: 'No.' } }
    const jobId = await owed(store, { outcome })
    const [due, ...others] = await take(store)
    assert.deepEqual([due?.jobId, others.length], [jobId, 0])
    const body = due && (await store.loadCallback(due))
    assert.deepEqual([body?.view.status, body?.view.errorJson], ['failed', JSON.stringify(outcome.error)])
  })

  on('a job that is stored as it ended owes its callback too', async (store) => {
    const job = newJob({ callback: CALLBACK })
    await storeEnded(store, job, settlement({ jobId: job.id, attempt: 1 }))
    assert.equal((await take(store))[0]?.jobId, job.id)
  })

  on('a callback is taken by one node only, and again by that node when its lease ends', async (store) => {
    await owed(store)
    const leaseUntilMs = now.ms + 1000
    const taken = await Promise.all([1, 2, 3].map(() => take(store, { limit: 1, leaseUntilMs })))
    assert.equal(taken.flat().length, 1)
    const [again] = await take(store, { nowMs: leaseUntilMs })
    assert.deepEqual([again?.attempt, again?.tries], [2, 2])
  })

  on('the callbacks of a dead node are due at once', async (store, _t, place) => {
    await owed(store)
    await take(store, { leaseUntilMs: now.ms + DAY_MS })
    await store.close()
    const next = await place.open()
    await next.rescue('node-b', now.ms)
    const [again] = await take(next, { node: 'node-b' })
    assert.equal(again?.attempt, 2)
    await next.close()
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
    const jobIds: string[] = []
    for (let made = 0; made < 30; made++) jobIds.push(await owed(store))
    await take(store, { limit: 100 })
    const nexts = [DELIVERED, FAILED, dueAt(now.ms + 5000)]
    const recorded = await Promise.all(
      jobIds.map((jobId, index) =>
        store.recordCallback(record(jobId, index < 3 ? 9 : 1, nexts[index % 3] ?? DELIVERED)),
      ),
    )
    assert.deepEqual(recorded, [...Array(3).fill(false), ...Array(27).fill(true)])
    const count = async (state: 'owed' | 'delivered' | 'failed') =>
      (await store.searchCallbacks({ state, limit: 100 })).items.length
    assert.deepEqual([await count('delivered'), await count('failed'), await count('owed')], [9, 9, 12])
  })

  on('first attempts and later ones are taken apart', async (store) => {
    const tried = await owed(store)
    await take(store)
    await store.recordCallback(record(tried, 1, dueAt(now.ms)))
    const untried = await owed(store)
    assert.deepEqual(
      (await take(store)).map(({ jobId }) => jobId),
      [untried],
    )
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

  on('a deferred callback is taken before it is due, unless it was tried since', async (store) => {
    const [waits, tried] = [await owed(store), await owed(store)]
    await take(store)
    const deferred = [waits, tried].map((jobId) => ({ jobId, attempt: 1, dueAtMs: now.ms + 1000 }))
    await store.deferCallbacks('node-a', deferred)
    const takeAgain = (node: string) =>
      store.takeDeferred({
        node,
        deferred: [waits, tried].map((jobId) => ({ jobId, attempts: 0 })),
        leaseUntilMs: now.ms + 5000,
      })
    await take(store, { nowMs: now.ms + 1000, limit: 1 })
    const [again, ...others] = await takeAgain('node-a')
    assert.deepEqual([again?.attempt, again?.tries, others.length], [1, 1, 0])
    assert.deepEqual(await takeAgain('node-a'), [])
    assert.equal(await store.recordCallback(record(again?.jobId ?? '', 1, DELIVERED)), true)
  })

  on('deferred callbacks are taken in the order given', async (store) => {
    const jobIds = [await owed(store), await owed(store), await owed(store)]
    await take(store)
    await store.deferCallbacks(
      'node-a',
      jobIds.map((jobId) => ({ jobId, attempt: 1, dueAtMs: now.ms + 1000 })),
    )
    const wanted = jobIds.toReversed()
    const taken = await store.takeDeferred({
      node: 'node-a',
      deferred: wanted.map((jobId) => ({ jobId, attempts: 0 })),
      leaseUntilMs: now.ms + 5000,
    })
    assert.deepEqual(
      taken.map(({ jobId }) => jobId),
      wanted,
    )
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
    const [one] = [await owed(store), await owed(store), await owed(store)]
    await take(store, { limit: 3 })
    await store.recordCallback(record(one, 1, FAILED))
    assert.deepEqual(await store.callbackDepth(), { owed: 2, failed: 1, earliestDueMs: now.ms + 1000 })
  })
}
