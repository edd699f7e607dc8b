/** What every store guarantees about accounts that cancel and delete their own jobs. */
import assert from 'node:assert/strict'
import type { Store } from '../../src/store/store.ts'
import {
  acceptance,
  claimNext,
  claimOf,
  DAY_MS,
  expiry,
  newJob,
  now,
  type On,
  settlement,
} from './fixtures.ts'

export function ownJobTests(on: On): void {
  const callback = { url: 'https://example.com/', headers: {}, payloadJson: '{}' }
  const errorOf = async (store: Store, jobId: string) =>
    JSON.parse((await store.read('acme', jobId, expiry()))?.errorJson ?? 'null')
  const usageOf = async (store: Store) => {
    const [sums] = await store.listUsage({ account: 'acme', limit: 1 })
    return [sums?.jobs, sums?.failedJobs, sums?.calls, sums?.inputTokens, sums?.outputTokens]
  }
  const cancel = (jobId: string, inputTokens: number | null = null) => ({
    account: 'acme',
    jobId,
    nowMs: now.ms,
    inputTokens,
  })
  const deletion = (jobId: string, over = {}) => ({
    account: 'acme',
    jobId,
    dropCallback: false,
    expiry: expiry(),
    ...over,
  })

  on('cancels a queued job of the account: the caller did it, and nothing was used', async (store) => {
    const job = newJob({ callback, inputTokens: 700 })
    await store.accept(acceptance([job]))
    assert.equal(await store.cancelOwnJob(cancel(job.id)), 'cancelled')
    assert.deepEqual(await errorOf(store, job.id), {
      code: 'cancelled',
      message: 'The caller cancelled the job.',
      cancelled_by: 'caller',
    })
    assert.equal((await store.findCallback(job.id))?.state, 'owed')
    assert.deepEqual(await usageOf(store), [1, 1, 0, 0, 0])
    assert.equal(await store.cancelOwnJob(cancel(job.id)), 'ended before')
    assert.deepEqual(await claimNext(store, 'node-a', 5), [])
    assert.deepEqual(await usageOf(store), [1, 1, 0, 0, 0])
  })

  on(
    'counts a call with its input tokens for a job that a node holds, and reports it to the node',
    async (store) => {
      const job = newJob({ inputTokens: 700 })
      await store.accept(acceptance([job], { handedOff: true }))
      assert.equal(await store.cancelOwnJob(cancel(job.id)), 'cancelled')
      assert.deepEqual(await store.takeCancelled('node-a'), [{ jobId: job.id, attempt: 1 }])
      assert.equal(await store.settle(settlement({ jobId: job.id, attempt: 1 })), 'stale')
      assert.deepEqual(await usageOf(store), [1, 1, 1, 700, 0])
      const found = await store.findJob(job.id, expiry())
      assert.deepEqual([found?.usage?.calls, found?.usage?.input_tokens, found?.status], [1, 700, 'failed'])
      assert.deepEqual((await store.depth()).assigned, 0)
    },
  )

  on(
    'reports a job to the node that holds it although it was deleted right after it was cancelled',
    async (store) => {
      const job = newJob()
      await store.accept(acceptance([job], { handedOff: true }))
      assert.equal(await store.cancelOwnJob(cancel(job.id)), 'cancelled')
      assert.equal(await store.deleteOwnJob(deletion(job.id)), 'deleted')
      assert.deepEqual(await store.takeCancelled('node-a'), [{ jobId: job.id, attempt: 1 }])
      assert.deepEqual(await store.takeCancelled('node-a'), [])
    },
  )

  on('counts the input tokens that are given rather than those of the creation', async (store) => {
    const job = newJob({ inputTokens: 700 })
    await store.accept(acceptance([job], { handedOff: true }))
    assert.equal(await store.cancelOwnJob(cancel(job.id, 150)), 'cancelled')
    assert.deepEqual(await usageOf(store), [1, 1, 1, 150, 0])
  })

  on('returns the messages of a job that a node holds, up to a size', async (store) => {
    const [held, queued] = [newJob(), newJob()]
    const bytes = Buffer.byteLength(held.messagesJson)
    await store.accept(acceptance([held], { handedOff: true }))
    await store.accept(acceptance([queued]))
    assert.equal(await store.heldMessages('acme', held.id, bytes), held.messagesJson)
    assert.equal(await store.heldMessages('acme', held.id, bytes - 1), null)
    assert.equal(await store.heldMessages('other', held.id, bytes), null)
    assert.equal(await store.heldMessages('acme', queued.id, bytes), null)
    assert.equal(await store.heldMessages('acme', 'x', bytes), null)
    await store.settle(settlement({ jobId: held.id, attempt: 1 }))
    assert.equal(await store.heldMessages('acme', held.id, bytes), null)
  })

  on('counts what the earlier runs of a job used that waits for a model server', async (store) => {
    const job = newJob({ inputTokens: 700 })
    await store.accept(acceptance([job]))
    const [claimed] = await claimNext(store, 'node-a', 1)
    assert.ok(claimed)
    const earlierJson =
      '{"calls":2,"records":[],"inputTokens":30,"outputTokens":5,"cachedTokens":20,"tries":0,"sinceMs":0,"waitedMs":0}'
    const release = { ...claimOf(claimed), route: 'dead/m', earlierJson, sinceMs: now.ms, waitedMs: 0 }
    await store.releaseWaiting('node-a', [release])
    assert.equal(await store.cancelOwnJob(cancel(job.id)), 'cancelled')
    assert.deepEqual(await usageOf(store), [1, 1, 2, 30, 5])
    const { usageJson = null } = (await store.read('acme', job.id, expiry())) ?? {}
    assert.equal(JSON.parse(usageJson ?? '{}').cached_input_tokens, 20)
  })

  on('leaves alone what has ended, and finds nothing of other accounts', async (store) => {
    const [done, other] = [newJob(), newJob({ account: 'other' })]
    await store.accept(acceptance([done], { handedOff: true }))
    await store.accept(acceptance([other]))
    await store.settle(settlement({ jobId: done.id, attempt: 1 }))
    assert.equal(await store.cancelOwnJob(cancel(done.id)), 'ended before')
    assert.equal((await store.read('acme', done.id, expiry()))?.status, 'completed')
    for (const id of [other.id, newJob().id, 'x']) {
      assert.equal(await store.cancelOwnJob(cancel(id)), 'unknown')
      assert.equal(await store.deleteOwnJob(deletion(id, { dropCallback: true })), 'unknown')
    }
    assert.equal((await store.read('other', other.id, expiry()))?.status, 'pending')
  })

  on('of a cancellation and a settlement at the same time, one counts', async (store) => {
    const jobs = Array.from({ length: 20 }, () => newJob({ inputTokens: 700 }))
    await store.accept(acceptance(jobs, { handedOff: true }))
    const results = await Promise.all(
      jobs.map(async ({ id }) => [
        await Promise.all([
          store.cancelOwnJob(cancel(id)),
          store.settle(settlement({ jobId: id, attempt: 1 })),
          store.cancelOwnJob(cancel(id)),
        ]),
      ]),
    )
    for (const [[first, settled, second] = []] of results) {
      const wins = [first === 'cancelled', settled === 'settled', second === 'cancelled'].filter(Boolean)
      assert.equal(wins.length, 1, `${first} ${settled} ${second}`)
    }
    assert.equal((await usageOf(store))[0], jobs.length)
  })

  on('deletes a job with its cached response, and leaves its usage', async (store) => {
    const job = newJob()
    await store.accept(acceptance([job], { handedOff: true }))
    assert.equal(await store.deleteOwnJob(deletion(job.id)), 'not ended')
    const cache = { fingerprint: 'f'.repeat(22), untilMs: now.ms + 300_000 }
    await store.settle(settlement({ jobId: job.id, attempt: 1 }, { cache }))
    assert.ok(await store.findResponse(cache.fingerprint, now.ms))
    assert.equal(await store.deleteOwnJob(deletion(job.id)), 'deleted')
    assert.equal(await store.read('acme', job.id, expiry()), null)
    assert.equal(await store.findResponse(cache.fingerprint, now.ms), null)
    assert.equal(await store.deleteOwnJob(deletion(job.id)), 'unknown')
    assert.equal((await usageOf(store))[0], 1)
    const use = await store.quotaUse('acme')
    assert.deepEqual([use.openJobs, use.storedBytes], [0, 0])
  })

  on('keeps a job whose callback is owed, unless it is to be dropped', async (store) => {
    const [kept, dropped] = [newJob({ callback }), newJob({ callback })]
    await store.accept(acceptance([kept, dropped], { handedOff: true }))
    for (const { id } of [kept, dropped]) await store.settle(settlement({ jobId: id, attempt: 1 }))
    for (const { id } of [kept, dropped]) {
      assert.equal(await store.deleteOwnJob(deletion(id)), 'callback owed')
    }
    assert.equal(await store.deleteOwnJob(deletion(dropped.id, { dropCallback: true })), 'deleted')
    assert.equal(await store.findCallback(dropped.id), null)
    const [taken] = await store.takeCallbacks({
      node: 'node-a',
      queue: 'first',
      limit: 5,
      nowMs: now.ms,
      leaseUntilMs: now.ms + 1000,
    })
    assert.equal(taken?.jobId, kept.id)
    assert.equal(await store.deleteOwnJob(deletion(kept.id)), 'callback owed')
    const attempt = { attempt: 1, atMs: now.ms, ms: 1, status: 200, error: null, answer: '' }
    const record = { jobId: kept.id, attempt, next: { kind: 'delivered' }, nowMs: now.ms } as const
    assert.equal(await store.recordCallback(record), true)
    assert.equal(await store.deleteOwnJob(deletion(kept.id)), 'deleted')
    assert.equal((await store.callbackDepth()).owed, 0)
  })

  on('finds no expired job, as a read finds none', async (store) => {
    const job = newJob()
    await store.accept(acceptance([job], { handedOff: true }))
    await store.settle(settlement({ jobId: job.id, attempt: 1 }))
    const late = expiry(now.ms + DAY_MS)
    assert.equal(await store.read('acme', job.id, late), null)
    assert.equal(await store.deleteOwnJob(deletion(job.id, { expiry: late })), 'unknown')
  })

  on(
    'reads what a job of the account was created from, with the beginning of its messages',
    async (store) => {
      const job = newJob({ messages: [{ role: 'user', content: '€😀x' }] })
      await store.accept(acceptance([job]))
      const read = (over = {}) =>
        store.readRequest({ account: 'acme', jobId: job.id, expiry: expiry(), messageChars: 0, ...over })
      const { model, responseFormatJson, messagesJson } = job
      const messageBytes = Buffer.byteLength(messagesJson)
      assert.deepEqual(await read(), { model, responseFormatJson, messagesStart: '', messageBytes })
      const start = '[{"role":"user","content":"€😀'
      assert.equal((await read({ messageChars: 29 }))?.messagesStart, start)
      assert.equal((await read({ messageChars: 2 ** 30 }))?.messagesStart, messagesJson)
      assert.equal(await read({ account: 'other' }), null)
      assert.equal(await read({ jobId: 'x' }), null)
    },
  )
}
