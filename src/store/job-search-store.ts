/** Jobs of all accounts, for operators. Expired jobs are hidden, even while they are still stored. */

import type { Status, Usage } from '../job/job.ts'
import type { BatchOfJob } from '../job/job-id.ts'
import type { MetadataById } from '../job/job-record.ts'
import type { Metadata } from '../job/request.ts'
import type { CallbackState } from './callback-store.ts'
import type { Expiry } from './expiry.ts'
import type { RerunLinks } from './rerun-store.ts'

export interface JobSearchStore {
  /**
   * Returns jobs, newest first. The cost does not grow with the number of jobs: a search that finds little stops after
   * `MAX_SCANNED` jobs and returns where to continue (`JobPage`). It delays other operations by at most a few milliseconds.
   */
  searchJobs(search: JobSearch): Promise<JobPage>

  findJob(jobId: string, expiry: Expiry): Promise<JobDetails | null>

  /** Returns the texts of the request and the outcome; null if the job does not exist. */
  jobContent(jobId: string, expiry: Expiry): Promise<JobContent | null>

  /** Returns the usage of up to `limit` jobs between the two IDs, finished or not, in order of IDs. */
  jobUses(range: JobUseRange): Promise<JobUse[]>

  /** Returns the usage of those of the jobs that exist. */
  jobUsesOf(jobIds: readonly string[]): Promise<JobUse[]>

  /** Returns the metadata of those of the jobs that have some. The cost is a lookup for each job. */
  metadataOf(jobIds: readonly string[]): Promise<MetadataById>
}

export interface JobUseRange {
  readonly afterId: string
  readonly beforeId: string
  readonly limit: number
}

export interface JobUse
  extends Pick<JobSummary, 'id' | 'account' | 'model' | 'status' | 'createdAtMs' | 'settledAtMs' | 'usage'> {
  /** The beginning of the stored `response_format`, with all of the metadata, if the job has metadata. */
  readonly formatStart: string
}

export interface JobSearch {
  readonly account?: string
  readonly status?: Status
  readonly model?: string
  /** Only jobs whose metadata has these pairs. */
  readonly metadata?: Metadata
  /** Only jobs created at this time or later. */
  readonly fromMs?: number
  /** Only jobs created before this time. */
  readonly toMs?: number
  /** Only jobs before this ID. */
  readonly beforeJobId?: string
  readonly limit: number
  readonly expiry: Expiry
}

export interface JobPage {
  readonly jobs: readonly JobSummary[]
  /** False if the search reached `MAX_SCANNED` before it knew whether there are more. */
  readonly complete: boolean
  /** The `beforeJobId` of the next page; null at the end. */
  readonly next: string | null
}

export interface JobSummary {
  readonly id: string
  readonly account: string
  readonly tier: string
  readonly model: string
  readonly status: Status
  readonly createdAtMs: number
  /** When the job was last claimed; null if it never was, or if that is no longer stored. */
  readonly claimedAtMs: number | null
  readonly settledAtMs: number | null
  /** How often the job was claimed. */
  readonly attempts: number
  readonly errorCode: string | null
  /** Null until the job has finished. */
  readonly usage: Usage | null
  /** Null if the job has no callback, or has not finished. */
  readonly callback: CallbackState | null
}

export interface JobDetails extends JobSummary, RerunLinks {
  readonly format: 'text' | 'json' | 'json with schema'
  readonly crashCount: number
  /** For a queued job: its route (empty if unknown), and since when it waits for a model server. Otherwise null. */
  readonly queued: { readonly route: string; readonly waitsSinceMs: number | null } | null
  readonly priority: string
  /** Null if the job has no deadline. */
  readonly deadlineMs: number | null
  /** JSON text; null until the job has finished. */
  readonly receiptJson: string | null
  /** Null if the job is not a line of a batch. */
  readonly batch: BatchOfJob | null
}

/** The stored texts of a job, as JSON. */
export interface JobContent {
  readonly messagesJson: string
  readonly responseFormatJson: string
  /** Null if the job has no options. */
  readonly optionsJson: string | null
  /** Null if the job has no metadata. */
  readonly metadataJson: string | null
  readonly contentJson: string | null
  readonly errorJson: string | null
  readonly receiptJson: string | null
}
