/** Callbacks as the admin API and `--json` return them. Times are Unix seconds. */
import type { CallbackAttempt, CallbackDetails, CallbackSummary } from '../store/callback-store.ts'

export interface CallbackView {
  readonly job_id: string
  readonly account: string
  readonly url: string
  readonly state: CallbackSummary['state']
  readonly attempts: number
  /** Null if no further attempt is planned. */
  readonly next_attempt_at: number | null
  /** When it was delivered or failed permanently; null while it is owed. */
  readonly ended_at: number | null
  readonly last_attempt: AttemptView | null
}

export interface CallbackDetailsView extends CallbackView {
  readonly job_status: string
  readonly under_way: boolean
  readonly header_names: readonly string[]
  readonly callback_payload: string
  readonly log: readonly AttemptView[]
}

export interface AttemptView {
  readonly attempt: number
  readonly at: number
  readonly ms: number
  /** The HTTP status of the response; null if there was none. */
  readonly status: number | null
  readonly error: string | null
  /** The first 1 KiB of the response body. */
  readonly answer: string | null
}

export function callbackView(summary: CallbackSummary): CallbackView {
  const { jobId, account, url, state, attempts, dueAtMs, endedAtMs, last } = summary
  return {
    job_id: jobId,
    account,
    url,
    state,
    attempts,
    next_attempt_at: secondsOf(dueAtMs),
    ended_at: secondsOf(endedAtMs),
    last_attempt: last && attemptView(last),
  }
}

/** The payload stays JSON text, because parsing it could change large numbers. */
export function callbackDetailsView(details: CallbackDetails): CallbackDetailsView {
  return {
    ...callbackView(details),
    job_status: details.jobStatus,
    under_way: details.inProgress,
    header_names: details.headerNames,
    callback_payload: details.payloadJson,
    log: details.log.map(attemptView),
  }
}

function attemptView({ attempt, atMs, ms, status, error, answer }: CallbackAttempt): AttemptView {
  return { attempt, at: atMs / 1000, ms, status, error, answer }
}

function secondsOf(ms: number | null): number | null {
  return ms === null ? null : Math.floor(ms / 1000)
}
