/** Implements operators' job searches in the reference store. */
import {
  batchOf,
  formatParts,
  hasMetadata,
  splitMetadata,
  splitOptions,
} from '../../../src/job/response-format.ts'
import type { JobSummary } from '../../../src/store/job-search-store.ts'
import { stateOf } from './callbacks.ts'
import { hasExpired, isJob, type JobRow, type MemoryDatabase } from './database.ts'
import { define } from './operations.ts'

export function searchOperations(db: MemoryDatabase) {
  return define({
    searchJobs({ account, status, model, metadata, fromMs, toMs, beforeJobId, limit, expiry }) {
      const matches = ({ job, status: actual }: JobRow) =>
        (account === undefined || job.account === account) &&
        (status === undefined || actual === status) &&
        (model === undefined || job.model === model) &&
        (metadata === undefined || hasMetadata(job.responseFormatJson, metadata)) &&
        (fromMs === undefined || job.createdAtMs >= fromMs) &&
        (toMs === undefined || job.createdAtMs < toMs) &&
        (beforeJobId === undefined || job.id < beforeJobId)
      const found = [...db.jobs.values()]
        .filter((row) => isJob(row) && matches(row) && !hasExpired(row, expiry))
        .sort((one, other) => (one.job.id > other.job.id ? -1 : 1))
      const jobs = found.slice(0, limit).map(summaryOf)
      return { jobs, complete: true, next: found.length > limit ? (jobs.at(-1)?.id ?? null) : null }
    },

    findJob(jobId, expiry) {
      const row = db.readable(jobId, expiry)
      if (row === null) return null
      const { job, crashCount, turn, route, waitsSinceMs, outcome } = row
      const { kind } = formatParts(job.responseFormatJson)
      return {
        ...summaryOf(row),
        format: kind === 'schema' ? 'json with schema' : kind,
        crashCount,
        priority: job.priority ?? 'normal',
        deadlineMs: job.deadlineMs ?? null,
        queued: turn === null ? null : { route, waitsSinceMs },
        receiptJson: outcome?.receiptJson ?? null,
        batch: batchOf(job.responseFormatJson),
        // No node reruns a job.
        rerunOf: null,
        reruns: [],
      }
    },

    jobContent(jobId, expiry) {
      const row = db.readable(jobId, expiry)
      if (row === null) return null
      const { messagesJson } = row.job
      const { formatJson: responseFormatJson, optionsJson } = splitOptions(row.job.responseFormatJson)
      const { metadataJson } = splitMetadata(row.job.responseFormatJson)
      const { contentJson = null, errorJson = null, receiptJson = null } = row.outcome ?? {}
      return {
        messagesJson,
        responseFormatJson,
        optionsJson,
        metadataJson,
        contentJson,
        errorJson,
        receiptJson,
      }
    },
  })
}

function summaryOf({
  job,
  status,
  attempt,
  claimedAtMs,
  settledAtMs,
  outcome,
  callback,
}: JobRow): JobSummary {
  const { id, account, tier, model, createdAtMs } = job
  const errorJson = outcome?.errorJson ?? null
  return {
    id,
    account,
    tier,
    model,
    status,
    createdAtMs,
    claimedAtMs,
    settledAtMs,
    attempts: attempt,
    errorCode: errorJson === null ? null : String(JSON.parse(errorJson).code),
    usage: outcome?.usage ?? null,
    callback: callback && stateOf(callback),
  }
}
