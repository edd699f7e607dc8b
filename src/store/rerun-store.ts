/**
 * Reruns: new jobs with the requests of finished ones. Operators request them through any process on the database, but only a
 * server can create the job, because it knows the limits of tiers and the model servers.
 */
import type { Job } from '../job/job.ts'
import type { AccountRecord } from './account-store.ts'
import type { Expiry } from './expiry.ts'

/**
 * If a node has not ended a rerun within this time after taking it, for example because it crashed, any node may take the
 * rerun.
 */
export const RERUN_TAKEN_MS = 60_000

/** A link is kept for this many retention times, because the new job expires later than the original. */
export const RERUN_RETENTIONS = 2

export interface RerunStore {
  /**
   * Does not check whether the rerun will be refused. A job that already has a rerun, not counting refused ones, gets another
   * only if `again` is true. Returns at most `limit` requests, newest jobs first.
   */
  requestReruns(request: RerunRequest): Promise<RequestedRerun[]>

  /** Returns requests that no node has taken in the last `RERUN_TAKEN_MS`, oldest first. */
  openReruns(nowMs: number, limit: number): Promise<OpenRerun[]>

  /** Returns false if a node has taken the request in the last `RERUN_TAKEN_MS`, or has ended it. */
  takeRerun(id: string, nowMs: number): Promise<boolean>

  /** A second call changes nothing. */
  endRerun(id: string, end: RerunEnd, nowMs: number): Promise<void>

  endedReruns(ids: readonly string[]): Promise<EndedRerun[]>

  jobToRerun(jobId: string, expiry: Expiry): Promise<JobToRerun | null>
}

export interface RerunRequest {
  readonly jobIds: readonly string[]
  readonly withCallback: boolean
  readonly again: boolean
  /** If true, jobs that are reruns themselves are included. */
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
  | { readonly rerunId: null; readonly refusal: string }

export type EndedRerun = RequestedRerun & RerunEnd

/** Leaves out jobs that no longer exist. */
export interface RerunLinks {
  readonly rerunOf: string | null
  /** The oldest rerun comes first. */
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
