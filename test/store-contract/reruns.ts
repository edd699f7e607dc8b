/** What every store guarantees about reruns. */
import assert from 'node:assert/strict'
import { leastJobId } from '../../src/job/job-id.ts'
import { RERUN_TAKEN_MS } from '../../src/store/rerun-store.ts'
import type { Store } from '../../src/store/store.ts'
import { acceptance, newJob, now, type On } from './fixtures.ts'

const ONE = { withCallback: false, again: false, ofReruns: true, limit: 100 }
const expiry = () => ({ nowMs: now.ms, retentionMs: 60_000 })

async function stored(store: Store, jobs: number) {
  const made = Array.from({ length: jobs }, () => newJob())
  await store.accept(acceptance(made))
  return made.map(({ id }) => id)
}

/** Requests a rerun of the job and makes it, as a server would. */
async function rerun(store: Store, jobId: string, over: object = {}) {
  const [request] = await store.requestReruns({ ...ONE, jobIds: [jobId], nowMs: now.ms, ...over })
  assert.ok(request)
  const [rerunId = ''] = await stored(store, 1)
  await store.endRerun(request.id, { rerunId, refusal: null }, now.ms)
  return rerunId
}

export function rerunTests(on: On): void {
  on('requests a rerun of a job once, and again only if asked', async (store) => {
    const [first = '', second = ''] = await stored(store, 2)
    const request = (over: object = {}) =>
      store.requestReruns({ ...ONE, jobIds: [first, second], nowMs: now.ms, ...over })
    assert.deepEqual(
      (await request({ limit: 1 })).map(({ jobId }) => jobId),
      [second],
    )
    const both = await Promise.all([request(), request()])
    assert.deepEqual(
      both.flat().map(({ jobId }) => jobId),
      [first],
    )
    assert.deepEqual(await request(), [])
    const again = await request({ again: true })
    assert.deepEqual(
      again.map(({ jobId }) => jobId),
      [second, first],
    )
    assert.equal((await store.openReruns(now.ms, 10)).length, 4)
    assert.equal((await store.openReruns(now.ms, 3)).length, 3)
  })

  on('one node takes a request at a time, and another one if it does not end', async (store) => {
    const [jobId = ''] = await stored(store, 1)
    const [request] = await store.requestReruns({
      ...ONE,
      withCallback: true,
      jobIds: [jobId],
      nowMs: now.ms,
    })
    assert.ok(request)
    assert.deepEqual(await store.openReruns(now.ms, 10), [{ ...request, withCallback: true }])
    assert.equal(await store.takeRerun(request.id, now.ms), true)
    assert.equal(await store.takeRerun(request.id, now.ms + 1), false)
    assert.deepEqual(await store.openReruns(now.ms + 1, 10), [])
    const laterMs = now.ms + RERUN_TAKEN_MS
    assert.equal((await store.openReruns(laterMs, 10)).length, 1)
    assert.equal(await store.takeRerun(request.id, laterMs), true)
    assert.deepEqual(await store.endedReruns([request.id]), [])
    const end = { rerunId: null, refusal: 'no' }
    await store.endRerun(request.id, end, laterMs)
    await store.endRerun(request.id, { rerunId: jobId, refusal: null }, laterMs)
    assert.deepEqual(await store.endedReruns([request.id, 'x']), [{ ...request, ...end }])
    assert.equal(await store.takeRerun(request.id, laterMs + RERUN_TAKEN_MS), false)
  })

  on('a rerun that was refused can be requested again', async (store) => {
    const [jobId = ''] = await stored(store, 1)
    const request = (over: object = {}) =>
      store.requestReruns({ ...ONE, jobIds: [jobId], nowMs: now.ms, ...over })
    const [first] = await request()
    assert.ok(first)
    await store.endRerun(first.id, { rerunId: null, refusal: 'no' }, now.ms)
    assert.deepEqual(await request(), [first])
    await store.endRerun(first.id, { rerunId: null, refusal: 'no' }, now.ms)
    assert.deepEqual(await request({ again: true }), [first])
    assert.deepEqual(await store.endedReruns([first.id]), [])
  })

  on('links both jobs while they exist', async (store) => {
    const [jobId = '', other = ''] = await stored(store, 2)
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
    const found = await store.requestReruns({
      ...ONE,
      jobIds: [third, other],
      nowMs: now.ms,
      ofReruns: false,
    })
    assert.deepEqual(
      found.map(({ jobId }) => jobId),
      [other],
    )
    await store.cancelJob(second, now.ms)
    await store.deleteJob(second)
    assert.deepEqual(await linksOf(jobId), [null, [first]])
    await store.cancelJob(jobId, now.ms)
    const refused = await store.requestReruns({ ...ONE, jobIds: [jobId], again: true, nowMs: now.ms })
    const ids = refused.map(({ id }) => id)
    for (const id of ids) await store.endRerun(id, { rerunId: null, refusal: 'acme has no more' }, now.ms)
    assert.equal((await store.endedReruns(ids)).length, 1)
    await store.deleteJob(jobId)
    assert.deepEqual(await linksOf(first), [null, [third]])
    assert.deepEqual(await store.endedReruns(ids), [])
  })

  on('returns what a rerun repeats, and whose it is', async (store) => {
    const deadlineMs = now.ms + 5000
    const callback = { url: 'https://x.test/', headers: {}, payloadJson: '{}' }
    const job = newJob({ priority: 'low', deadlineMs, callback })
    await store.accept(acceptance([job]))
    const read = () => store.jobToRerun(job.id, expiry())
    const open = await read()
    assert.ok(open)
    const { hasEnded, owner, priority, ...others } = open
    assert.deepEqual([hasEnded, owner.name, priority], [false, 'acme', 'low'])
    assert.deepEqual(others, {
      model: job.model,
      messagesJson: job.messagesJson,
      responseFormatJson: job.responseFormatJson,
      callbackJson: job.callbackJson,
      createdAtMs: job.createdAtMs,
      inputTokens: job.inputTokens,
      deadlineMs,
    })
    await store.cancelJob(job.id, now.ms)
    await store.suspend('acme', now.ms)
    const ended = await read()
    assert.deepEqual([ended?.hasEnded, ended?.owner.suspendedAtMs], [true, now.ms])
    assert.equal(await store.jobToRerun(leastJobId(now.ms), expiry()), null)
  })

  on('forgets a link when both jobs have had time to expire', async (store) => {
    const [jobId = ''] = await stored(store, 1)
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
