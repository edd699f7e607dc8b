/** Keeps callbacks in the reference store. */
import type { Callback } from '../../../src/job/job.ts'
import {
  type CallbackState,
  type CallbackSummary,
  type DueCallback,
  MAX_ATTEMPTS_LENGTH,
  MAX_COUNTED,
} from '../../../src/store/callback-store.ts'
import { outcomeBytes } from '../../../src/store/stored-bytes.ts'
import { secretsOf } from './accounts.ts'
import { type CallbackRow, hasExpired, type JobRow, type MemoryDatabase } from './database.ts'
import { recordOf } from './jobs.ts'
import { define } from './operations.ts'

type OwingRow = JobRow & { readonly callback: CallbackRow }

export function callbackOperations(db: MemoryDatabase) {
  const find = (jobId: string): OwingRow | null => withCallback(db.jobs.get(jobId))
  const all = () => [...db.jobs.values()].map(withCallback).filter((row) => row !== null)
  return define({
    takeCallbacks({ node, queue, limit, nowMs, leaseUntilMs }) {
      const isMine = (owner: string | null) => !db.shared || owner === null || owner === node
      return [...db.owed]
        .map(withCallback)
        .filter((row) => row !== null)
        .filter(({ callback }) => callback.isRetry === (queue === 'retry') && isMine(callback.node))
        .filter(({ callback }) => (callback.dueAtMs ?? Number.POSITIVE_INFINITY) <= nowMs)
        .filter(({ job }) => db.mayTake(job.id))
        .sort((one, other) => (one.callback.dueAtMs ?? 0) - (other.callback.dueAtMs ?? 0))
        .slice(0, limit)
        .map((row) => take(row, node, leaseUntilMs))
    },

    takeDeferred({ node, deferred, leaseUntilMs }) {
      return deferred.flatMap(({ jobId, attempts }) => {
        const row = find(jobId)
        if (row === null) return []
        const { callback } = row
        const isMine = !db.shared || callback.node === null || callback.node === node
        const isUntouched = callback.attempt === attempts && !callback.isInProgress
        return isMine && isUntouched && callback.dueAtMs !== null ? [take(row, node, leaseUntilMs)] : []
      })
    },

    loadCallback({ jobId, attempt }) {
      const row = find(jobId)
      const account = row && db.accounts.get(row.job.account)
      if (!row || !isTaken(row, attempt) || !row.callback.isInProgress) return null
      const secrets = account ? secretsOf(account) : null
      return { callback: textOf(row), view: recordOf(row), endedAtMs: row.settledAtMs ?? 0, secrets }
    },

    recordCallback({ jobId, attempt, next, nowMs }) {
      const row = find(jobId)
      if (row === null || !isTaken(row, attempt.attempt)) return false
      const { callback } = row
      Object.assign(callback, {
        dueAtMs: next.kind === 'due' ? next.atMs : null,
        deliveredAtMs: next.kind === 'delivered' ? nowMs : null,
        failedAtMs: next.kind === 'failed' ? nowMs : null,
        node: null,
        isInProgress: false,
      })
      if (next.kind === 'due') {
        callback.isRetry = true
        if (!next.counts) callback.tries -= 1
      } else db.owed.delete(row)
      const lengths = callback.attempts.map((one) => JSON.stringify(one).length)
      if (lengths.reduce((sum, length) => sum + length, 0) > MAX_ATTEMPTS_LENGTH) callback.attempts.shift()
      callback.attempts.push(attempt)
      return true
    },

    deferCallbacks(node, deferred) {
      for (const { jobId, attempt, dueAtMs } of deferred) {
        const callback = find(jobId)?.callback
        if (callback?.attempt !== attempt || callback.node !== node) continue
        Object.assign(callback, {
          attempt: attempt - 1,
          tries: callback.tries - 1,
          isInProgress: false,
          dueAtMs,
        })
      }
    },

    callbackDepth() {
      const due = [...db.owed].flatMap(({ callback }) => callback?.dueAtMs ?? [])
      const failed = all().filter(({ callback }) => callback.failedAtMs !== null).length
      return {
        owed: Math.min(due.length, MAX_COUNTED),
        failed: Math.min(failed, MAX_COUNTED),
        earliestDueMs: due.length === 0 ? null : Math.min(...due),
      }
    },

    findCallback(jobId) {
      const row = find(jobId)
      if (row === null) return null
      const { headers, payloadJson, event } = textOf(row)
      return {
        ...summaryOf(row),
        jobStatus: row.status,
        headerNames: Object.keys(headers),
        payloadJson,
        event: event?.of ?? null,
        inProgress: row.callback.isInProgress,
        log: [...row.callback.attempts],
      }
    },

    replayCallback(jobId, expiry) {
      const row = find(jobId)
      if (row === null || hasExpired(row, expiry)) return 'unknown'
      if (row.callback.isInProgress) return 'in progress'
      replay(db, row, expiry.nowMs)
      return 'replayed'
    },
  })
}

function withCallback(row: JobRow | undefined): OwingRow | null {
  return row !== undefined && row.callback !== null ? (row as OwingRow) : null
}

function isTaken({ callback }: OwingRow, attempt: number): boolean {
  return callback.attempt === attempt && callback.dueAtMs !== null
}

function take(row: OwingRow, node: string, leaseUntilMs: number): DueCallback {
  const { job, callback, outcome } = row
  callback.attempt += 1
  callback.tries += 1
  Object.assign(callback, { node, isInProgress: true, dueAtMs: leaseUntilMs })
  const { contentJson = null, errorJson = null } = outcome ?? {}
  const { attempt, tries, owedSinceMs } = callback
  return {
    jobId: job.id,
    attempt,
    tries,
    account: job.account,
    url: textOf(row).url,
    bodyBytes: Buffer.byteLength(job.callbackJson ?? '') + outcomeBytes(contentJson, errorJson, ''),
    owedSinceMs,
  }
}

function textOf({ job }: OwingRow): Callback {
  return JSON.parse(job.callbackJson ?? '{}') as Callback
}

function replay(db: MemoryDatabase, row: OwingRow, nowMs: number): void {
  const due = { node: null, dueAtMs: nowMs, owedSinceMs: nowMs, tries: 0, isRetry: true }
  Object.assign(row.callback, { ...due, deliveredAtMs: null, failedAtMs: null })
  db.owed.add(row)
}

export function stateOf({ dueAtMs, deliveredAtMs }: CallbackRow): CallbackState {
  if (dueAtMs !== null) return 'owed'
  return deliveredAtMs === null ? 'failed' : 'delivered'
}

function summaryOf(row: OwingRow): CallbackSummary {
  const { job, callback } = row
  const { attempt: attempts, attempts: log, dueAtMs, isInProgress } = callback
  return {
    jobId: job.id,
    account: job.account,
    url: textOf(row).url,
    state: stateOf(callback),
    attempts,
    dueAtMs: isInProgress ? null : dueAtMs,
    endedAtMs: callback.deliveredAtMs ?? callback.failedAtMs,
    last: log.at(-1) ?? null,
  }
}
