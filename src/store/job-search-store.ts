/**
 * The part of the storage contract with which operators search jobs of all accounts. `searchJobs`, `findJob` and `jobContent`
 * hide expired jobs, even while they are still stored.
 */
import type { Status, Usage } from '../job/job.ts'
import type { BatchOfJob } from '../job/job-id.ts'
import type { MetadataById } from '../job/job-record.ts'
import type { Metadata } from '../job/request.ts'
import type { CallbackState } from './callback-store.ts'
import type { Expiry } from './expiry.ts'
import type { RerunLinks } from './rerun-store.ts'

export interface JobSearchStore {
  /**
   * Returns jobs, newest first. A search stops after `MAX_SCANNED` jobs, so its cost does not grow with the number of jobs.
   * Each of its scans delays other operations by at most a few milliseconds.
   */
  searchJobs(search: JobSearch): Promise<JobPage>

  findJob(jobId: string, expiry: Expiry): Promise<JobDetails | null>

  jobContent(jobId: string, expiry: Expiry): Promise<JobContent | null>

  /** Returns jobs between the two IDs, finished or not, in order of IDs. */
  jobUses(range: JobUseRange): Promise<JobUse[]>

  /** Leaves out jobs that do not exist. */
  jobUsesOf(jobIds: readonly string[]): Promise<JobUse[]>

  /** Leaves out jobs without metadata. Each job costs a lookup. */
  metadataOf(jobIds: readonly string[]): Promise<MetadataById>
}

export interface JobUseRange {
  readonly afterId: string
  readonly beforeId: string
  readonly limit: number
}

export interface JobUse
  extends Pick<JobSummary, 'id' | 'account' | 'model' | 'status' | 'createdAtMs' | 'settledAtMs' | 'usage'> {
  /** The beginning of the stored `response_format`, which contains all metadata; `{}` without metadata. */
  readonly formatStart: string
}

export interface JobSearch {
  readonly account?: string
  readonly status?: Status
  readonly model?: string
  readonly metadata?: Metadata
  readonly fromMs?: number
  /** Jobs that were created at this time or later are left out. */
  readonly toMs?: number
  readonly beforeJobId?: string
  readonly limit: number
  readonly expiry: Expiry
}

export interface JobPage {
  readonly jobs: readonly JobSummary[]
  /** False if the search stopped at `MAX_SCANNED` jobs, so that there may be more matches. */
  readonly complete: boolean
  readonly next: string | null
}

export interface JobSummary {
  readonly id: string
  readonly account: string
  readonly tier: string
  readonly model: string
  readonly status: Status
  readonly createdAtMs: number
  /**
   * The time is null if the job was never claimed, or if it was copied to another database, unfinished, after its last claim.
   */
  readonly claimedAtMs: number | null
  readonly settledAtMs: number | null
  readonly attempts: number
  readonly errorCode: string | null
  readonly usage: Usage | null
  readonly callback: CallbackState | null
}

export interface JobDetails extends JobSummary, RerunLinks {
  readonly format: 'text' | 'json' | 'json with schema'
  readonly crashCount: number
  /**
   * The route is empty if it is unknown. `waitsSinceMs` is when the job was last released to wait for a model server, or left
   * the wait for budget; null if neither happened.
   */
  readonly queued: { readonly route: string; readonly waitsSinceMs: number | null } | null
  readonly priority: string
  readonly deadlineMs: number | null
  readonly receiptJson: string | null
  readonly batch: BatchOfJob | null
}

export interface JobContent {
  readonly messagesJson: string
  readonly responseFormatJson: string
  readonly optionsJson: string | null
  readonly metadataJson: string | null
  readonly contentJson: string | null
  readonly errorJson: string | null
  readonly receiptJson: string | null
}
