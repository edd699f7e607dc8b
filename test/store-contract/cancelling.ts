/**
 * Tests what every store guarantees about cancelling, by operators and by accounts, and about accounts that delete their own
 * jobs. A cancellation is an outcome like any other, whichever node holds the job.
 */
import assert from 'node:assert/strict'
import type { Job } from '../../src/job/job.ts'
import { AFTER_ALL } from '../../src/store/chunked-search.ts'
import type { Store } from '../../src/store/store.ts'
import { CALLBACK, DELIVERED, record, take } from './callback-fixtures.ts'
import {
  claimOf,
  DAY_MS,
  EMPTY,
  expiry,
  firstClaim,
  ids,
  jobIds,
  newJob,
  now,
  type On,
  several,
} from './fixtures.ts'
import { accept, addEnded, addHeld, addQueued, claimNext, settle } from './steps.ts'

export function cancelTests(on: On): void {
  const all = (over: { account?: string; running?: boolean; beforeJobId?: string; limit?: number } = {}) => {
    return { account: 'acme', running: false, beforeJobId: AFTER_ALL, limit: 100, nowMs: now.ms, ...over }
  }

  on('cancels a queued job: it has failed, is never claimed, and its callback is owed', async (store) => {
    const [job, next] = await accept(store, [newJob({ callback: CALLBACK }), newJob()])
    assert.equal(await store.cancelJob(job.id, now.ms), 'cancelled')
    const read = await store.read('acme', job.id, expiry())
    assert.deepEqual([read?.status, JSON.parse(read?.errorJson ?? '').code], ['failed', 'cancelled'])
    assert.deepEqual(ids(await claimNext(store, 'node-a', 5)), [next.id])
    assert.deepEqual(jobIds(await take(store)), [job.id])
    const found = await store.findJob(job.id, expiry())
    assert.deepEqual([found?.errorCode, found?.usage?.calls, found?.settledAtMs], ['cancelled', 0, now.ms])
  })

  on(
    'cancels a running job: its node learns it once, and what that node writes changes nothing',
    async (store) => {
      const job = await addHeld(store)
      assert.equal(await store.cancelJob(job.id, now.ms), 'cancelled')
      assert.deepEqual(await store.takeCancelled('node-a'), [firstClaim(job)])
      assert.deepEqual(await store.takeCancelled('node-a'), [])
      assert.equal(await settle(store, job), 'stale')
      await store.release('node-a', [firstClaim(job)])
      assert.deepEqual(await claimNext(store, 'node-a', 5), [])
      assert.equal((await store.read('acme', job.id, expiry()))?.status, 'failed')
      assert.deepEqual(await store.depth(), EMPTY)
    },
  )

  on('reports a queued job to the node that has a pending response for it', async (store) => {
    const [job] = await accept(store, [newJob()], { awaited: true })
    await store.cancelJob(job.id, now.ms)
    assert.deepEqual(await store.takeCancelled('node-a'), [{ jobId: job.id, attempt: 0 }])
    assert.deepEqual(await store.depth(), EMPTY)
  })

  on('cancels a released job, and leaves alone what has ended or never existed', async (store) => {
    const [returned, done] = await accept(store, [newJob(), newJob()])
    await claimNext(store, 'node-a', 2)
    await store.release('node-a', [firstClaim(returned)])
    await settle(store, done)
    assert.equal(await store.cancelJob(returned.id, now.ms), 'cancelled')
    assert.equal(await store.cancelJob(returned.id, now.ms), 'ended before')
    assert.equal(await store.cancelJob(done.id, now.ms), 'ended before')
    assert.equal((await store.read('acme', done.id, expiry()))?.status, 'completed')
    assert.equal(await store.cancelJob(newJob().id, now.ms), 'unknown')
    assert.deepEqual(await claimNext(store, 'node-a', 5), [])
  })

  on('cancels the queued jobs of one account, some at a time', async (store) => {
    await accept(store, several(5))
    const others = await accept(store, several(2, { account: 'other' }))
    const running = await addHeld(store)
    for (const cancelled of [3, 2, 0]) assert.equal(await store.cancelJobs(all({ limit: 3 })), cancelled)
    assert.equal((await store.read('acme', running.id, expiry()))?.status, 'assigned')
    assert.deepEqual(ids(await claimNext(store, 'node-a', 9)).sort(), ids(others).sort())
    const usage = await store.listUsage({ limit: 10 })
    assert.deepEqual(
      usage.map(({ account, jobs, failedJobs }) => [account, jobs, failedJobs]),
      [['acme', 5, 5]],
    )
  })

  on('frees what each of the cancelled jobs reserved, and counts it under its model', async (store) => {
    await addHeld(store, { reserved: 100 })
    await addQueued(store, { account: 'other', reserved: 3 })
    for (const job of [{ reserved: 10 }, { reserved: 5, model: 'gpt-5' }, { reserved: 7 }])
      await addQueued(store, job)
    assert.equal(await store.cancelJobs(all()), 3)
    const reserved = async (account: string) => (await store.quotaUse(account)).reserved
    assert.deepEqual([await reserved('acme'), await reserved('other')], [100, 3])
    const usage = await store.listUsage({ limit: 10 })
    assert.deepEqual(
      usage.map(({ account, model, jobs, failedJobs, cost }) => [account, model, jobs, failedJobs, cost]),
      [
        ['acme', 'gpt-5', 1, 1, 0],
        ['acme', 'gpt-5-mini', 2, 2, 0],
      ],
    )
  })

  on('cancels running jobs too if requested, and none that came later', async (store) => {
    await addQueued(store)
    const [running, held] = [await addHeld(store), await addHeld(store, { account: 'other' })]
    now.ms += 10
    const later = await addQueued(store)
    assert.equal(await store.cancelJobs(all({ running: true, beforeJobId: later.id })), 2)
    const cancelled = await store.takeCancelled('node-a')
    assert.deepEqual(
      cancelled.filter(({ attempt }) => attempt > 0),
      [firstClaim(running)],
    )
    assert.deepEqual(ids(await claimNext(store, 'node-a', 9)), [later.id])
    assert.equal((await store.read('other', held.id, expiry()))?.status, 'assigned')
  })
}

export function ownJobTests(on: On): void {
  const usageOf = async (store: Store) => {
    const [sums] = await store.listUsage({ account: 'acme', limit: 1 })
    return [sums?.jobs, sums?.failedJobs, sums?.calls, sums?.inputTokens, sums?.outputTokens]
  }
  const cancel = (store: Store, { id: jobId }: Pick<Job, 'id'>, inputTokens: number | null = null) =>
    store.cancelOwnJob({ account: 'acme', jobId, nowMs: now.ms, inputTokens })
  const drop = (store: Store, { id: jobId }: Pick<Job, 'id'>, over = {}) =>
    store.deleteOwnJob({ account: 'acme', jobId, dropCallback: false, expiry: expiry(), ...over })

  on('cancels a queued job of the account: the caller did it, and nothing was used', async (store) => {
    const job = await addQueued(store, { callback: CALLBACK, inputTokens: 700 })
    assert.equal(await cancel(store, job), 'cancelled')
    const error = { code: 'cancelled', message: 'The caller cancelled the job.', cancelled_by: 'caller' }
    const read = await store.read('acme', job.id, expiry())
    assert.deepEqual(JSON.parse(read?.errorJson ?? 'null'), error)
    assert.equal((await store.findCallback(job.id))?.state, 'owed')
    assert.deepEqual(await usageOf(store), [1, 1, 0, 0, 0])
    assert.equal(await cancel(store, job), 'ended before')
    assert.deepEqual(await claimNext(store, 'node-a', 5), [])
    assert.deepEqual(await usageOf(store), [1, 1, 0, 0, 0])
  })

  on(
    'counts a call with its input tokens for a job that a node holds, and reports it to the node',
    async (store) => {
      const job = await addHeld(store, { inputTokens: 700 })
      assert.equal(await cancel(store, job), 'cancelled')
      assert.deepEqual(await store.takeCancelled('node-a'), [firstClaim(job)])
      assert.equal(await settle(store, job), 'stale')
      assert.deepEqual(await usageOf(store), [1, 1, 1, 700, 0])
      const found = await store.findJob(job.id, expiry())
      assert.deepEqual([found?.usage?.calls, found?.usage?.input_tokens, found?.status], [1, 700, 'failed'])
      assert.deepEqual((await store.depth()).assigned, 0)
    },
  )

  on(
    'reports a job to the node that holds it although it was deleted right after it was cancelled',
    async (store) => {
      const job = await addHeld(store)
      assert.equal(await cancel(store, job), 'cancelled')
      assert.equal(await drop(store, job), 'deleted')
      assert.deepEqual(await store.takeCancelled('node-a'), [firstClaim(job)])
      assert.deepEqual(await store.takeCancelled('node-a'), [])
    },
  )

  on('counts the input tokens that are given rather than those of the creation', async (store) => {
    assert.equal(await cancel(store, await addHeld(store, { inputTokens: 700 }), 150), 'cancelled')
    assert.deepEqual(await usageOf(store), [1, 1, 1, 150, 0])
  })

  on('returns the messages of a job that a node holds, up to a size', async (store) => {
    const [held, queued] = [await addHeld(store), await addQueued(store)]
    const bytes = Buffer.byteLength(held.messagesJson)
    assert.equal(await store.heldMessages('acme', held.id, bytes), held.messagesJson)
    assert.equal(await store.heldMessages('acme', held.id, bytes - 1), null)
    assert.equal(await store.heldMessages('other', held.id, bytes), null)
    for (const id of [queued.id, 'x']) assert.equal(await store.heldMessages('acme', id, bytes), null)
    await settle(store, held)
    assert.equal(await store.heldMessages('acme', held.id, bytes), null)
  })

  on('counts what the earlier runs of a job used that waits for a model server', async (store) => {
    const job = await addQueued(store, { inputTokens: 700 })
    const [claimed] = await claimNext(store, 'node-a', 1)
    assert.ok(claimed)
    const used = { calls: 2, records: [], inputTokens: 30, outputTokens: 5, cachedTokens: 20 }
    const earlierJson = JSON.stringify({ ...used, tries: 0, sinceMs: 0, waitedMs: 0 })
    const release = { ...claimOf(claimed), route: 'dead/m', earlierJson, sinceMs: now.ms, waitedMs: 0 }
    await store.releaseWaiting('node-a', [release])
    assert.equal(await cancel(store, job), 'cancelled')
    assert.deepEqual(await usageOf(store), [1, 1, 2, 30, 5])
    const { usageJson = null } = (await store.read('acme', job.id, expiry())) ?? {}
    assert.equal(JSON.parse(usageJson ?? '{}').cached_input_tokens, 20)
  })

  on('leaves alone what has ended, and finds nothing of other accounts', async (store) => {
    const [done, other] = [await addEnded(store), await addQueued(store, { account: 'other' })]
    assert.equal(await cancel(store, done), 'ended before')
    assert.equal((await store.read('acme', done.id, expiry()))?.status, 'completed')
    for (const job of [other, newJob(), { id: 'x' }]) {
      assert.equal(await cancel(store, job), 'unknown')
      assert.equal(await drop(store, job, { dropCallback: true }), 'unknown')
    }
    assert.equal((await store.read('other', other.id, expiry()))?.status, 'pending')
  })

  on('of a cancellation and a settlement at the same time, one counts', async (store) => {
    const jobs = await accept(store, several(20, { inputTokens: 700 }), { handedOff: true })
    const results = await Promise.all(
      jobs.map((job) => Promise.all([cancel(store, job), settle(store, job), cancel(store, job)])),
    )
    for (const result of results) {
      const wins = result.filter((end) => end === 'cancelled' || end === 'settled')
      assert.equal(wins.length, 1, result.join(' '))
    }
    assert.equal((await usageOf(store))[0], jobs.length)
  })

  on('deletes a job with its cached response, and leaves its usage', async (store) => {
    const job = await addHeld(store)
    assert.equal(await drop(store, job), 'not ended')
    const cache = { fingerprint: 'f'.repeat(22), untilMs: now.ms + 300_000 }
    await settle(store, job, { cache })
    assert.ok(await store.findResponse(cache.fingerprint, now.ms))
    assert.equal(await drop(store, job), 'deleted')
    assert.equal(await store.read('acme', job.id, expiry()), null)
    assert.equal(await store.findResponse(cache.fingerprint, now.ms), null)
    assert.equal(await drop(store, job), 'unknown')
    assert.equal((await usageOf(store))[0], 1)
    assert.deepEqual(await store.quotaUse('acme'), { openJobs: 0, storedBytes: 0 })
  })

  on('keeps a job whose callback is owed, unless it is to be dropped', async (store) => {
    const callback = CALLBACK
    const [kept, dropped] = [await addEnded(store, { callback }), await addEnded(store, { callback })]
    for (const job of [kept, dropped]) assert.equal(await drop(store, job), 'callback owed')
    assert.equal(await drop(store, dropped, { dropCallback: true }), 'deleted')
    assert.equal(await store.findCallback(dropped.id), null)
    assert.deepEqual(jobIds(await take(store)), [kept.id])
    assert.equal(await drop(store, kept), 'callback owed')
    assert.equal(await store.recordCallback(record(kept.id, 1, DELIVERED)), true)
    assert.equal(await drop(store, kept), 'deleted')
    assert.equal((await store.callbackDepth()).owed, 0)
  })

  on('finds no expired job, as a read finds none', async (store) => {
    const job = await addEnded(store)
    const late = expiry(now.ms + DAY_MS)
    assert.equal(await store.read('acme', job.id, late), null)
    assert.equal(await drop(store, job, { expiry: late }), 'unknown')
  })

  on(
    'reads what a job of the account was created from, with the beginning of its messages',
    async (store) => {
      const job = await addQueued(store, { messages: [{ role: 'user', content: '€😀x' }] })
      const read = (over = {}) =>
        store.readRequest({ account: 'acme', jobId: job.id, expiry: expiry(), messageChars: 0, ...over })
      const { model, responseFormatJson, messagesJson } = job
      const messageBytes = Buffer.byteLength(messagesJson)
      assert.deepEqual(await read(), { model, responseFormatJson, messagesStart: '', messageBytes })
      const start = '[{"role":"user","content":"€😀'
      assert.equal((await read({ messageChars: 29 }))?.messagesStart, start)
      assert.equal((await read({ messageChars: 2 ** 30 }))?.messagesStart, messagesJson)
      for (const other of [{ account: 'other' }, { jobId: 'x' }]) assert.equal(await read(other), null)
    },
  )
}
