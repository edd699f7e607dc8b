/** Tests what every store guarantees about batches. */
import assert from 'node:assert/strict'
import { callbackText } from '../../src/job/job.ts'
import type { BatchStep, NewBatch } from '../../src/store/batch-store.ts'
import { BEFORE_ALL } from '../../src/store/chunked-search.ts'
import { PIECE_BYTES } from '../../src/store/file-store.ts'
import type { Store } from '../../src/store/store.ts'
import { CALLBACK, DELIVERED, FAILED, record, take } from './callback-fixtures.ts'
import { DAY_MS, expiry, ids, newJob, now, type On } from './fixtures.ts'
import { accept, addEnded } from './steps.ts'

const NODE = 'this-node'
const END = {
  ...{ removeAtMs: 9e15, filesExpireAtMs: 8e15 },
  ...{ outputName: 'output.jsonl', errorName: 'error.jsonl', callback: null },
}

async function create(store: Store, account = 'acme'): Promise<NewBatch> {
  const batch = {
    ...{ id: newJob().id, account, inputFileId: newJob().id, endpoint: '/v1/chat/completions' },
    ...{ aboutJson: '{"metadata":null}', createdAtMs: now.ms, deadlineMs: now.ms + 1000 },
  }
  assert.equal(await store.createBatch(batch, 100), batch.id)
  return batch
}

export function stepOf(batchId: string, version: number, over: Partial<BatchStep> = {}): BatchStep {
  return {
    ...{ batchId, node: NODE, version, status: 'in_progress', progressJson: '{}', started: [] },
    ...{ endedJobIds: [], forgottenKeys: [], output: null, errors: null, nowMs: now.ms, end: null },
    ...over,
  }
}

/** An event reports the end of the batch. Returns the batch's ID and the stored callback. */
export async function endWithReport(store: Store): Promise<readonly [id: string, callbackJson: string]> {
  const { id } = await create(store)
  await store.claimBatches(NODE, 10)
  const event = { of: 'batch', idPrefix: 'batch_', ending: 'expired' } as const
  const callback = callbackText({ ...CALLBACK, event })
  const end = { ...END, callback }
  assert.equal(await store.advanceBatch(stepOf(id, 7, { status: 'expired', end })), false)
  assert.deepEqual(await take(store), [])
  assert.equal(await store.advanceBatch(stepOf(id, 1, { status: 'expired', end })), true)
  return [id, callback]
}

export function batchTests(on: On): void {
  on('reads what jobs asked for, many at a time', async (store) => {
    const jobs = [newJob({ model: 'one' }), newJob({ model: 'other' })]
    await accept(store, jobs)
    const requests = await store.requestsOf([...jobs.map(({ id }) => id), newJob().id])
    const expected = jobs.map(({ id: jobId, model, responseFormatJson }) => {
      return { jobId, model, responseFormatJson }
    })
    const byModel = requests.toSorted((one, other) => (one.model > other.model ? 1 : -1))
    assert.deepEqual(byModel, expected)
  })

  on('owes a report of the end from the step that ends the batch on, which is no job', async (store) => {
    const [id, storedCallback] = await endWithReport(store)
    const [due] = await take(store)
    assert.deepEqual([due?.jobId, due?.account, due?.url, due?.attempt], [id, 'acme', CALLBACK.url, 1])
    const body = await store.loadCallback({ jobId: id, attempt: 1, bodyBytes: due?.bodyBytes ?? 0 })
    assert.deepEqual([body?.callback.event?.ending, body?.view.id, body?.endedAtMs], ['expired', id, now.ms])
    assert.equal(await store.recordCallback(record(id, 1, FAILED)), true)
    assert.equal((await store.findCallback(id))?.event, 'batch')
    const expiry = { nowMs: now.ms, retentionMs: 1000 }
    assert.deepEqual((await store.searchJobs({ limit: 10, expiry })).jobs, [])
    assert.equal(await store.findJob(id, expiry), null)
    assert.equal(await store.read('acme', id, expiry), null)
    assert.equal(await store.deleteJob(id), 'unknown')
    assert.deepEqual(await store.listUsage({ limit: 10 }), [])

    assert.equal(await store.replayCallback(id, expiry), 'replayed')
    assert.equal((await take(store, { queue: 'retry' })).length, 1)
    assert.equal(await store.recordCallback(record(id, 2, DELIVERED)), true)
    assert.equal((await store.quotaUse('acme')).storedBytes, storedCallback.length + 2 + 2 + 2)
    assert.equal(await store.replayCallback(id, { ...expiry, nowMs: now.ms + 1000 }), 'unknown')
    await store.deleteBatchesOf('acme')
    assert.deepEqual(await store.deleteJobsOf('acme', BEFORE_ALL), { deleted: 1, open: 0, next: null })
    assert.equal((await store.quotaUse('acme')).storedBytes, 0)
    assert.equal(await store.findCallback(id), null)
  })

  on('deletes a batch when its time after the end is over', async (store) => {
    const [open, ended] = [await create(store), await create(store)]
    await store.claimBatches(NODE, 10)
    const end = { ...END, removeAtMs: now.ms + 1000 }
    assert.equal(await store.advanceBatch(stepOf(ended.id, 1, { status: 'completed', end })), true)
    await store.expire({ nowMs: now.ms + 999, retentionMs: 1 })
    assert.notEqual(await store.findBatch('acme', ended.id), null)
    await store.expire({ nowMs: now.ms + 1000, retentionMs: 1 })
    assert.equal(await store.findBatch('acme', ended.id), null)
    assert.notEqual(await store.findBatch('acme', open.id), null)
  })

  on('stores, lists and finds the batches of an account, up to a number of open ones', async (store) => {
    const [first, second] = [await create(store), await create(store)]
    const other = await create(store, 'other')
    const fresh = {
      ...{ version: 0, status: 'validating', progressJson: '' },
      ...{ cancellingAtMs: null, outputFileId: null, errorFileId: null },
    }
    assert.deepEqual(await store.findBatch('acme', first.id), { ...first, ...fresh })
    assert.equal(await store.findBatch('acme', other.id), null)
    assert.deepEqual(ids(await store.listBatches({ account: 'acme', limit: 5 })), [second.id, first.id])
    assert.deepEqual(ids(await store.listBatches({ limit: 2 })), [other.id, second.id])
    assert.equal((await store.findAnyBatch(other.id))?.account, 'other')
    assert.equal(await store.findAnyBatch(newJob().id), null)
    const page = { account: 'acme', afterBatchId: second.id, limit: 5 }
    assert.deepEqual(ids(await store.listBatches(page)), [first.id])
    const retried = (over: object, sinceMs = now.ms) =>
      store.createBatch({ ...second, id: newJob().id, ...over }, 2, sinceMs)
    assert.equal(await retried({}), second.id)
    for (const over of [{ inputFileId: 'x' }, { endpoint: 'x' }, { aboutJson: 'x' }])
      assert.equal(await retried(over), null)
    assert.equal(await retried({}, now.ms + 1), null)
    await store.cancelBatch('acme', second.id, now.ms)
    assert.equal(await retried({}), null)
    assert.equal(await store.createBatch({ ...first, id: newJob().id }, 2), null)
    await assert.rejects(store.createBatch(first, 3))
    await store.deleteBatchesOf('acme')
    assert.deepEqual(await store.listBatches({ account: 'acme', limit: 5 }), [])
    assert.notEqual(await store.findBatch('other', other.id), null)
  })

  on(
    'creates no more batches than an account may have open, and one for all tries, however many at the same time',
    async (store) => {
      const first = await create(store)
      const createAll = (sinceMs: number | null, over: object) => {
        const batches = Array.from({ length: 20 }, () => ({ ...first, ...over, id: newJob().id }))
        return Promise.all(batches.map((batch) => store.createBatch(batch, 4, sinceMs)))
      }
      assert.equal(new Set(await createAll(now.ms, { aboutJson: '{}' })).size, 1)
      assert.equal((await createAll(null, {})).filter(Boolean).length, 2)
    },
  )

  on('deletes the oldest batch above a number of stored ones, if it has ended', async (store) => {
    const [first, second] = [await create(store), await create(store)]
    const add = async () => {
      assert.notEqual(await store.createBatch({ ...first, id: newJob().id }, 100, null, 2), null)
      return ids(await store.listBatches({ account: 'acme', limit: 5 }))
    }
    assert.deepEqual((await add()).slice(1), [second.id, first.id])
    await store.claimBatches(NODE, 10)
    assert.equal(await store.advanceBatch(stepOf(second.id, 1, { status: 'failed', end: END })), true)
    const other = await create(store, 'other')
    assert.deepEqual((await add()).slice(2), [first.id])
    assert.equal(await store.advanceBatch(stepOf(first.id, 1, { status: 'failed', end: END })), true)
    assert.equal((await add()).includes(first.id), false)
    assert.notEqual(await store.findAnyBatch(other.id), null)
  })

  on('claims batches up to a limit, and above it the oldest of each account', async (store) => {
    const batches = [await create(store), await create(store), await create(store)]
    const [first, second, third] = ids(batches)
    const claim = async (limit: number) => ids(await store.claimBatches(NODE, limit))
    assert.deepEqual(await claim(2), [first, second])
    const [other] = [await create(store, 'other'), await create(store, 'other')]
    assert.deepEqual(await claim(0), [first, second, other.id])
    assert.deepEqual(await claim(1), [first, second, third, other.id])
  })

  on('lets one step of each version happen, by the node that claimed the batch', async (store) => {
    const { id } = await create(store)
    assert.equal(await store.advanceBatch(stepOf(id, 0)), false)
    const [claimed] = await store.claimBatches(NODE, 10)
    assert.deepEqual([claimed?.id, claimed?.version], [id, 1])
    assert.equal((await store.claimBatches(NODE, 10))[0]?.version, 1)
    assert.equal(await store.advanceBatch(stepOf(id, 1, { node: 'another-node' })), false)
    assert.equal(await store.advanceBatch(stepOf(id, 1, { progressJson: '{"line":1}' })), true)
    assert.equal(await store.advanceBatch(stepOf(id, 1, { progressJson: '{"line":2}' })), false)
    const cancelled = await store.cancelBatch('acme', id, now.ms + 5)
    assert.deepEqual(
      [cancelled?.status, cancelled?.cancellingAtMs, cancelled?.version, cancelled?.progressJson],
      ['cancelling', now.ms + 5, 3, '{"line":1}'],
    )
    assert.equal((await store.cancelBatch('acme', id, now.ms + 9))?.cancellingAtMs, now.ms + 5)
    assert.equal(await store.cancelBatch('other', id, now.ms), null)
    assert.equal(await store.advanceBatch(stepOf(id, 2)), false)
    assert.equal(await store.advanceBatch(stepOf(id, 3, { status: 'cancelled', end: END })), true)
    assert.equal(await store.advanceBatch(stepOf(id, 4)), false)
    assert.deepEqual(await store.claimBatches(NODE, 10), [])
    assert.equal((await store.cancelBatch('acme', id, now.ms))?.status, 'cancelled')
    const open = await create(store)
    assert.deepEqual(ids(await store.listBatches({ onlyOpen: true, limit: 5 })), [open.id])
  })

  on('the job of a line does not expire before the batch has its result', async (store) => {
    const { id } = await create(store)
    await store.claimBatches(NODE, 10)
    const [inBatch, alone] = [await addEnded(store), await addEnded(store)]
    const started = [{ line: 1, customId: 'one', jobId: inBatch.id }]
    assert.equal(await store.advanceBatch(stepOf(id, 1, { started })), true)
    now.ms += 30 * DAY_MS
    const expireAll = async () => {
      while (await store.expire(expiry()));
    }
    await expireAll()
    assert.deepEqual(await store.findMissing([inBatch.id, alone.id]), [alone.id])
    assert.equal(await store.advanceBatch(stepOf(id, 2, { endedJobIds: [inBatch.id] })), true)
    await expireAll()
    assert.deepEqual(await store.findMissing([inBatch.id]), [inBatch.id])
  })

  on('moves the results of lines to files, which can be read at the end', async (store) => {
    const { id } = await create(store)
    await store.claimBatches(NODE, 10)
    const lines = [1, 2, 3].map((line) => ({ line, customId: `say "${line}"`, jobId: newJob().id }))
    assert.equal(await store.advanceBatch(stepOf(id, 1, { started: lines })), true)
    assert.deepEqual(await store.linesOfBatch(id), lines)
    const fileId = newJob().id
    const parts = [PIECE_BYTES - 10, 7, 2 * PIECE_BYTES, 3].map((bytes, at) => Buffer.alloc(bytes, 65 + at))
    for (const [at, content] of parts.entries()) {
      const endedJobIds = lines.slice(at, at + 1).map(({ jobId }) => jobId)
      const output = { fileId, content }
      assert.equal(await store.advanceBatch(stepOf(id, 2 + at, { endedJobIds, output })), true)
      assert.equal(await store.advanceBatch(stepOf(id, 2 + at, { endedJobIds, output })), false)
    }
    assert.deepEqual(await store.linesOfBatch(id), [])
    assert.equal(await store.findFile('acme', fileId, now.ms), null)
    assert.equal(await store.purgeFiles(now.ms + 1e12), false)
    assert.equal(await store.advanceBatch(stepOf(id, 6, { status: 'completed', end: END })), true)
    const file = await store.findFile('acme', fileId, now.ms)
    const whole = Buffer.concat(parts)
    assert.deepEqual(
      [file?.bytes, file?.filename, file?.purpose, file?.expiresAtMs],
      [whole.length, 'output.jsonl', 'batch_output', 8e15],
    )
    const read: Uint8Array[] = []
    for (let at = 0, piece = await store.readPiece(fileId, 0); piece !== null; ) {
      read.push(piece)
      at += 1
      piece = await store.readPiece(fileId, at)
    }
    assert.ok(Buffer.concat(read).equals(whole))
    // The 7 bytes were written again, and so were the 3.
    assert.deepEqual(
      read.map(({ length }) => length),
      [PIECE_BYTES - 10, PIECE_BYTES, PIECE_BYTES, 10],
    )
    const ended = await store.findBatch('acme', id)
    assert.deepEqual([ended?.outputFileId, ended?.errorFileId], [fileId, null])
    assert.equal((await store.quotaUse('acme')).storedBytes, whole.length)
  })
}
