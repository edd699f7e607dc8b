/** Tests what every store guarantees about reruns. */
import assert from 'node:assert/strict'
import { leastJobId } from '../../src/job/job-id.ts'
import { RERUN_TAKEN_MS, type RerunRequest } from '../../src/store/rerun-store.ts'
import type { Store } from '../../src/store/store.ts'
import { CALLBACK } from './callback-fixtures.ts'
import { jobIds, now, type On } from './fixtures.ts'
import { addQueued } from './steps.ts'

const expiry = () => ({ nowMs: now.ms, retentionMs: 60_000 })

const storeJob = async (store: Store) => (await addQueued(store)).id

function request(store: Store, jobIds: readonly string[], over: Partial<RerunRequest> = {}) {
  const usual = { withCallback: false, again: false, ofReruns: true, limit: 100, nowMs: now.ms }
  return store.requestReruns({ ...usual, jobIds, ...over })
}

async function rerun(store: Store, jobId: string, over: Partial<RerunRequest> = {}) {
  const [requested] = await request(store, [jobId], over)
  assert.ok(requested)
  const rerunId = await storeJob(store)
  await store.endRerun(requested.id, { rerunId, refusal: null }, now.ms)
  return rerunId
}

export function rerunTests(on: On): void {
  on('requests a rerun of a job once, and again only if asked', async (store) => {
    const [first, second] = [await storeJob(store), await storeJob(store)]
    const ask = async (over: Partial<RerunRequest> = {}) =>
      jobIds(await request(store, [first, second], over))
    assert.deepEqual(await ask({ limit: 1 }), [second])
    assert.deepEqual((await Promise.all([ask(), ask()])).flat(), [first])
    assert.deepEqual(await ask(), [])
    assert.deepEqual(await ask({ again: true }), [second, first])
    assert.equal((await store.openReruns(now.ms, 10)).length, 4)
    assert.equal((await store.openReruns(now.ms, 3)).length, 3)
  })

  on('one node takes a request at a time, and another one if it does not end', async (store) => {
    const jobId = await storeJob(store)
    const [requested] = await request(store, [jobId], { withCallback: true })
    assert.ok(requested)
    const { id } = requested
    assert.deepEqual(await store.openReruns(now.ms, 10), [{ ...requested, withCallback: true }])
    assert.equal(await store.takeRerun(id, now.ms), true)
    assert.equal(await store.takeRerun(id, now.ms + 1), false)
    assert.deepEqual(await store.openReruns(now.ms + 1, 10), [])
    const laterMs = now.ms + RERUN_TAKEN_MS
    assert.equal((await store.openReruns(laterMs, 10)).length, 1)
    assert.equal(await store.takeRerun(id, laterMs), true)
    assert.deepEqual(await store.endedReruns([id]), [])
    const end = { rerunId: null, refusal: 'no' }
    await store.endRerun(id, end, laterMs)
    await store.endRerun(id, { rerunId: jobId, refusal: null }, laterMs)
    assert.deepEqual(await store.endedReruns([id, 'x']), [{ ...requested, ...end }])
    assert.equal(await store.takeRerun(id, laterMs + RERUN_TAKEN_MS), false)
  })

  on('a rerun that was refused can be requested again', async (store) => {
    const jobId = await storeJob(store)
    const [first] = await request(store, [jobId])
    assert.ok(first)
    for (const over of [{}, { again: true }]) {
      await store.endRerun(first.id, { rerunId: null, refusal: 'no' }, now.ms)
      assert.deepEqual(await request(store, [jobId], over), [first])
    }
    assert.deepEqual(await store.endedReruns([first.id]), [])
  })

  on('links both jobs while they exist', async (store) => {
    const [jobId, other] = [await storeJob(store), await storeJob(store)]
    const linksOf = async (id: string) => {
      const found = await store.findJob(id, expiry())
      return [found?.rerunOf, found?.reruns]
    }
    assert.deepEqual(await linksOf(jobId), [null, []])
    const first = await rerun(store, jobId)
    const second = await rerun(store, jobId, { again: true })
    const third = await rerun(store, first)
    assert.deepEqual(await linksOf(jobId), [null, [first, second]])
    assert.deepEqual(await linksOf(first), [jobId, [third]])
    assert.deepEqual(await linksOf(other), [null, []])
    assert.deepEqual(jobIds(await request(store, [third, other], { ofReruns: false })), [other])
    await store.cancelJob(second, now.ms)
    await store.deleteJob(second)
    assert.deepEqual(await linksOf(jobId), [null, [first]])
    await store.cancelJob(jobId, now.ms)
    const [refused] = await request(store, [jobId], { again: true })
    assert.ok(refused)
    await store.endRerun(refused.id, { rerunId: null, refusal: 'acme has no more' }, now.ms)
    assert.equal((await store.endedReruns([refused.id])).length, 1)
    await store.deleteJob(jobId)
    assert.deepEqual(await linksOf(first), [null, [third]])
    assert.deepEqual(await store.endedReruns([refused.id]), [])
  })

  on('returns what a rerun repeats, and whose it is', async (store) => {
    const deadlineMs = now.ms + 5000
    const job = await addQueued(store, { priority: 'low', deadlineMs, callback: CALLBACK })
    const read = () => store.jobToRerun(job.id, expiry())
    const open = await read()
    assert.ok(open)
    const { hasEnded, owner, priority, ...others } = open
    assert.deepEqual([hasEnded, owner.name, priority], [false, 'acme', 'low'])
    const { model, messagesJson, responseFormatJson, callbackJson, createdAtMs, inputTokens } = job
    const texts = { messagesJson, responseFormatJson, callbackJson }
    assert.deepEqual(others, { model, ...texts, createdAtMs, inputTokens, deadlineMs })
    await store.cancelJob(job.id, now.ms)
    await store.suspend('acme', now.ms)
    const ended = await read()
    assert.deepEqual([ended?.hasEnded, ended?.owner.suspendedAtMs], [true, now.ms])
    assert.equal(await store.jobToRerun(leastJobId(now.ms), expiry()), null)
  })

  on('forgets a link when both jobs have had time to expire', async (store) => {
    const jobId = await storeJob(store)
    const rerunId = await rerun(store, jobId)
    const { retentionMs } = expiry()
    const rerunsAfter = async (ms: number) => {
      while (await store.expire({ nowMs: now.ms + ms, retentionMs }));
      return (await store.findJob(jobId, expiry()))?.reruns
    }
    assert.deepEqual(await rerunsAfter(2 * retentionMs - 1), [rerunId])
    assert.deepEqual(await rerunsAfter(2 * retentionMs), [])
  })
}
