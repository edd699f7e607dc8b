/**
 * Reruns: new jobs with the request of a finished one. Operators request them through any process on the database, and a server
 * makes the job, because only it knows the limits of tiers and the model servers. A row links the two jobs for as long as
 * operators may ask for it.
 */
import type { Job } from '../job/job.ts'
import type { AccountRecord } from './account-store.ts'
import type { Expiry } from './expiry.ts'

/** A node that takes a rerun makes its job, or refuses it, within this time; if it crashed, another node takes it then. */
export const RERUN_TAKEN_MS = 60_000

/** A link is forgotten this many retentions after the rerun was made, because the new job expires later than the other one. */
export const RERUN_RETENTIONS = 2

export interface RerunStore {
  /**
   * Requests a rerun of each of these jobs, whether it can be made or not. Of a job whose rerun is requested or was made, another
   * one is requested only if `again` is true, so a second call without it requests nothing. Returns the requests, of the newest
   * jobs first: at most `limit`.
   */
  requestReruns(request: RerunRequest): Promise<RequestedRerun[]>

  /** Requests that no node has taken lately: up to `limit`, the oldest first. */
  openReruns(nowMs: number, limit: number): Promise<OpenRerun[]>

  /** Takes a request; false if another node has taken or ended it. */
  takeRerun(id: string, nowMs: number): Promise<boolean>

  /** Links the rerun to its job, or records why there is none. A second call changes nothing. */
  endRerun(id: string, end: RerunEnd, nowMs: number): Promise<void>

  /** How those of the requests ended that have. */
  endedReruns(ids: readonly string[]): Promise<EndedRerun[]>

  /** What a rerun repeats; null if the job does not exist any longer. */
  jobToRerun(jobId: string, expiry: Expiry): Promise<JobToRerun | null>
}

export interface RerunRequest {
  readonly jobIds: readonly string[]
  readonly withCallback: boolean
  readonly again: boolean
  /** Whether also of jobs that are reruns themselves. */
  readonly ofReruns: boolean
  readonly limit: number
  readonly nowMs: number
}

/** `id` stays the same if a rerun that was refused is requested again. */
export interface RequestedRerun {
  readonly id: string
  readonly jobId: string
}

export interface OpenRerun extends RequestedRerun {
  readonly withCallback: boolean
}

export type RerunEnd =
  | { readonly rerunId: string; readonly refusal: null }
  /** Why there is no job, for operators. */
  | { readonly rerunId: null; readonly refusal: string }

export type EndedRerun = RequestedRerun & RerunEnd

/** Jobs that still exist. */
export interface RerunLinks {
  /** The job that this one repeats; null if it repeats none. */
  readonly rerunOf: string | null
  /** The jobs that repeat this one, oldest first. */
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
