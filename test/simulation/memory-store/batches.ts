/** Keeps batches in the reference store. */
import { NO_USAGE } from '../../../src/job/job.ts'
import { leastJobId } from '../../../src/job/job-id.ts'
import {
  type FileExtension,
  MAX_STORED_BATCHES,
  type NewBatch,
  OUTPUT_PURPOSE,
  type StoredBatch,
} from '../../../src/store/batch-store.ts'
import { LEAST_PIECE_BYTES, PIECE_BYTES } from '../../../src/store/file-store.ts'
import { NO_MODEL } from '../../../src/store/job-rows.ts'
import { WriteRejected } from '../../../src/store/store.ts'
import type { BatchRow, MemoryDatabase } from './database.ts'
import { newRow, owe } from './jobs.ts'
import { define } from './operations.ts'

export function batchOperations(db: MemoryDatabase) {
  const isOpen = ({ removeAtMs }: BatchRow) => removeAtMs === null
  const ofAccount = (account: string) => [...db.batches.values()].filter((row) => row.account === account)
  const find = (account: string, batchId: string) => {
    const row = db.batches.get(batchId)
    return row?.account === account ? row : null
  }
  const extend = (account: string, fileId: string | null, extension: FileExtension | null, nowMs: number) => {
    if (fileId === null || extension === null) return
    const row = db.files.get(fileId) ?? {
      ...{ id: fileId, account, createdAtMs: nowMs, filename: '', purpose: '' },
      ...{ pieces: [], isComplete: false, removeAtMs: null },
    }
    db.files.set(fileId, row)
    const last = row.pieces.at(-1)
    const small = last !== undefined && last.length < LEAST_PIECE_BYTES ? row.pieces.splice(-1) : []
    const content = Buffer.concat([...small, extension.content])
    for (let at = 0; at < content.length; at += PIECE_BYTES)
      row.pieces.push(content.subarray(at, at + PIECE_BYTES))
  }
  return define({
    createBatch(batch, maxOpen, retriedSinceMs = null, maxStored = MAX_STORED_BATCHES) {
      const stored = ofAccount(batch.account).sort((one, other) => (one.id < other.id ? 1 : -1))
      const since = retriedSinceMs === null ? null : leastJobId(retriedSinceMs)
      const earlier = stored.find((row) => since !== null && row.id >= since && isLike(row, batch))
      if (earlier !== undefined) return earlier.id
      if (stored.filter(isOpen).length >= maxOpen) return null
      if (db.batches.has(batch.id)) throw new WriteRejected('the batch exists')
      for (const old of stored.slice(maxStored - 1, maxStored + 1)) {
        if (!isOpen(old)) db.batches.delete(old.id)
      }
      const none = {
        cancellingAtMs: null,
        outputFileId: null,
        errorFileId: null,
        node: null,
        removeAtMs: null,
      }
      db.batches.set(batch.id, {
        ...batch,
        ...none,
        version: 0,
        status: 'validating',
        progressJson: '',
        lines: [],
      })
      return batch.id
    },

    findBatch(account, batchId) {
      const row = find(account, batchId)
      return row && viewOf(row)
    },

    findAnyBatch(batchId) {
      const row = db.batches.get(batchId)
      return row === undefined ? null : viewOf(row)
    },

    listBatches({ account, onlyOpen = false, afterBatchId, limit }) {
      return [...db.batches.values()]
        .filter((row) => account === undefined || row.account === account)
        .filter((row) => !onlyOpen || isOpen(row))
        .filter(({ id }) => afterBatchId === undefined || id < afterBatchId)
        .sort((one, other) => (one.id < other.id ? 1 : -1))
        .slice(0, limit)
        .map(viewOf)
    },

    cancelBatch(account, batchId, nowMs) {
      const row = find(account, batchId)
      if (row?.status === 'validating' || row?.status === 'in_progress') {
        const version = row.version + 1
        db.batches.set(batchId, { ...row, status: 'cancelling', cancellingAtMs: nowMs, version })
      }
      const after = find(account, batchId)
      return after && viewOf(after)
    },

    claimBatches(node, limit) {
      const open = [...db.batches.values()].filter(isOpen).sort((one, other) => (one.id < other.id ? -1 : 1))
      const isFree = (row: BatchRow) =>
        row.node === null || (row.node !== node && !(db.shared && db.hasLease(row.node)))
      const oldest = new Map(open.toReversed().map((row) => [row.account, row]))
      for (const row of new Set([...open.filter(isFree).slice(0, limit), ...oldest.values()])) {
        if (!isFree(row)) continue
        db.batches.set(row.id, { ...row, node, version: row.version + 1 })
      }
      return open
        .map(({ id }) => db.batches.get(id))
        .filter((row) => row !== undefined)
        .filter((row) => row.node === node)
        .map(viewOf)
    },

    requestsOf: (jobIds) =>
      jobIds
        .flatMap((jobId) => db.jobs.get(jobId) ?? [])
        .map(({ job: { id, model, responseFormatJson } }) => ({ jobId: id, model, responseFormatJson })),

    linesOfBatch: (batchId) => [...(db.batches.get(batchId)?.lines ?? [])],

    advanceBatch(step) {
      const {
        batchId,
        node,
        version,
        status,
        progressJson,
        started,
        endedJobIds,
        output,
        errors,
        end,
        nowMs,
      } = step
      const row = db.batches.get(batchId)
      if (row === undefined || row.node !== node || row.version !== version || !isOpen(row)) return false
      const outputFileId = row.outputFileId ?? output?.fileId ?? null
      const errorFileId = row.errorFileId ?? errors?.fileId ?? null
      const lines = [...row.lines, ...started].filter(({ jobId }) => !endedJobIds.includes(jobId))
      const removeAtMs = end?.removeAtMs ?? null
      const changed = { status, progressJson, outputFileId, errorFileId, lines, removeAtMs }
      db.batches.set(batchId, { ...row, ...changed, version: version + 1 })
      for (const key of step.forgottenKeys) {
        for (const [place, kept] of db.idempotency) {
          if (kept.account === row.account && kept.key === key) db.idempotency.delete(place)
        }
      }
      extend(row.account, outputFileId, output, nowMs)
      extend(row.account, errorFileId, errors, nowMs)
      if (end === null) return true
      const { filesExpireAtMs } = end
      for (const [fileId, filename] of [
        [outputFileId, end.outputName],
        [errorFileId, end.errorName],
      ] as const) {
        const file = fileId === null ? undefined : db.files.get(fileId)
        const about = { isComplete: true, filename, purpose: OUTPUT_PURPOSE, removeAtMs: filesExpireAtMs }
        if (file?.removeAtMs === null) Object.assign(file, about)
      }
      if (end.callback !== null) report(db, row, end.callback, nowMs)
      return true
    },

    deleteBatchesOf(account) {
      for (const { id } of ofAccount(account)) db.batches.delete(id)
    },

    findOwner(account) {
      const row = db.accounts.get(account)
      return row ? { tier: row.tier, suspendedAtMs: row.suspendedAtMs, caps: row.caps } : null
    },
  })
}

function report(db: MemoryDatabase, batch: BatchRow, callbackJson: string, nowMs: number): void {
  const { id, account, createdAtMs } = batch
  const texts = { messagesJson: '[]', responseFormatJson: '{}', callbackJson }
  const job = { id, account, tier: '', model: NO_MODEL, cacheTtlMs: 0, inputTokens: 0, createdAtMs, ...texts }
  const row = newRow(job, null)
  const outcome = { contentJson: null, errorJson: null, usage: NO_USAGE, receiptJson: '{}' }
  Object.assign(row, { status: 'completed', claimedAtMs: nowMs, settledAtMs: nowMs, outcome })
  db.jobs.set(id, row)
  owe(db, row, nowMs)
}

function viewOf({ node, removeAtMs, lines, ...batch }: BatchRow): StoredBatch {
  return batch
}

function isLike(row: BatchRow, { inputFileId, endpoint, aboutJson }: NewBatch): boolean {
  const isSame = row.inputFileId === inputFileId && row.endpoint === endpoint && row.aboutJson === aboutJson
  return isSame && !['failed', 'cancelling', 'cancelled'].includes(row.status)
}
