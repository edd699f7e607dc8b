/**
 * Reruns: new jobs with the requests of finished ones. Operators request them through any process on the database, but only a
 * server can create the job, because it knows the limits of tiers and the model servers. A row links the two jobs.
 */
import type { Job } from '../job/job.ts'
import type { AccountRecord } from './account-store.ts'
import type { Expiry } from './expiry.ts'

/** A node that takes a rerun ends it within this time, unless the node crashes. Then another node may take it. */
export const RERUN_TAKEN_MS = 60_000

/** A link is kept for this many retention times, because the new job expires later than the original. */
export const RERUN_RETENTIONS = 2

export interface RerunStore {
  /**
   * Requests a rerun of each of these jobs, without checking whether it will be refused. If a job already has a rerun,
   * requested or created, it gets another one only if `again` is true. Without `again`, a second call requests nothing. Returns
   * at most `limit` requests, newest jobs first.
   */
  requestReruns(request: RerunRequest): Promise<RequestedRerun[]>

  /** Returns up to `limit` requests that no node has taken in the last `RERUN_TAKEN_MS`, oldest first. */
  openReruns(nowMs: number, limit: number): Promise<OpenRerun[]>

  /** Takes a request. Returns false if another node has taken or ended it. */
  takeRerun(id: string, nowMs: number): Promise<boolean>

  /** Links the rerun to its job, or records why there is none. A second call changes nothing. */
  endRerun(id: string, end: RerunEnd, nowMs: number): Promise<void>

  /** Leaves out requests that have not ended. */
  endedReruns(ids: readonly string[]): Promise<EndedRerun[]>

  /** Returns the request that a rerun repeats; null if the job no longer exists. */
  jobToRerun(jobId: string, expiry: Expiry): Promise<JobToRerun | null>
}

export interface RerunRequest {
  readonly jobIds: readonly string[]
  readonly withCallback: boolean
  readonly again: boolean
  /** True to include jobs that are reruns themselves. */
  readonly ofReruns: boolean
  readonly limit: number
  readonly nowMs: number
}

/** A refused rerun keeps its ID if it is requested again. */
export interface RequestedRerun {
  readonly id: string
  readonly jobId: string
}

export interface OpenRerun extends RequestedRerun {
  readonly withCallback: boolean
}

export type RerunEnd =
  | { readonly rerunId: string; readonly refusal: null }
  /** Why no job was created, as a message to operators. */
  | { readonly rerunId: null; readonly refusal: string }

export type EndedRerun = RequestedRerun & RerunEnd

/** Leaves out jobs that no longer exist. */
export interface RerunLinks {
  /** The job that this job repeats; null if it is not a rerun. */
  readonly rerunOf: string | null
  /** Oldest first. */
  readonly reruns: readonly string[]
}

export interface JobToRerun
  extends Pick<
    Job,
    'model' | 'messagesJson' | 'responseFormatJson' | 'callbackJson' | 'createdAtMs' | 'inputTokens'
  > {
  readonly hasEnded: boolean
  readonly priority: string | null
  readonly deadlineMs: number | null
  readonly owner: Pick<AccountRecord, 'name' | 'tier' | 'suspendedAtMs' | 'caps'>
}
