/** Searches of jobs by operators, in the reference store. */

import type { MetadataById } from '../../../src/job/job-record.ts'
import { hasMetadata } from '../../../src/job/metadata-filter.ts'
import { batchOf, formatParts, splitMetadata, splitOptions } from '../../../src/job/response-format.ts'
import type { Expiry } from '../../../src/store/expiry.ts'
import type {
  JobContent,
  JobDetails,
  JobPage,
  JobSearch,
  JobSummary,
  JobUse,
  JobUseRange,
} from '../../../src/store/job-search-store.ts'
import { stateOf } from './callbacks.ts'
import { hasExpired, isJob, type JobRow, type MemoryDatabase } from './database.ts'
import { rerunLinks } from './reruns.ts'

const byId = (one: JobRow, other: JobRow) => (one.job.id < other.job.id ? -1 : 1)

function useOf({ job, status, settledAtMs, outcome }: JobRow): JobUse {
  const { id, account, model, createdAtMs, responseFormatJson: formatStart } = job
  return { id, account, model, status, createdAtMs, settledAtMs, usage: outcome?.usage ?? null, formatStart }
}

export function searchOperations(db: MemoryDatabase) {
  return {
    searchJobs({
      account,
      status,
      model,
      metadata,
      fromMs,
      toMs,
      beforeJobId,
      limit,
      expiry,
    }: JobSearch): JobPage {
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

    findJob(jobId: string, expiry: Expiry): JobDetails | null {
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
        ...rerunLinks(db, jobId),
      }
    },

    jobUses({ afterId, beforeId, limit }: JobUseRange): JobUse[] {
      const found = [...db.jobs.values()].filter(
        (row) => isJob(row) && row.job.id > afterId && row.job.id < beforeId,
      )
      return found.sort(byId).slice(0, limit).map(useOf)
    },

    jobUsesOf(jobIds: readonly string[]): JobUse[] {
      const found = jobIds.flatMap((id) => db.jobs.get(id) ?? [])
      return found.sort(byId).map(useOf)
    },

    metadataOf(jobIds: readonly string[]): MetadataById {
      return new Map(
        jobIds.flatMap((id) => {
          const stored = db.jobs.get(id)?.job.responseFormatJson
          const metadataJson = stored === undefined ? null : splitMetadata(stored).metadataJson
          return metadataJson === null ? [] : [[id, metadataJson]]
        }),
      )
    },

    jobContent(jobId: string, expiry: Expiry): JobContent | null {
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
  }
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
