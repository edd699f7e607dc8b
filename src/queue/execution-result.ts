/** Describes what an execution of a job leaves: the result to settle, or the state from which the job's next run continues. */

import {
  type ClaimedJob,
  type JobError,
  type Outcome,
  type RawText,
  rawTextJson,
  type Usage,
} from '../job/job.ts'
import {
  type EarlierUsage,
  type ReceiptFormat,
  receiptOfEarlier,
  TEXT_FORMAT,
  usageOfEarlier,
} from '../job/results-without-call.ts'
import type { Claim } from '../store/node-store.ts'
import type { WaitingRelease } from '../store/store.ts'
import type { CallRecord, RequestWait } from '../upstreams/model-server.ts'

export interface ExecutionResult {
  readonly outcome: Outcome
  readonly usage: Usage
  readonly receipt: Receipt
  /** How to cache the response for identical later jobs; null if it must not be cached. */
  readonly cache: { readonly fingerprint: string; readonly untilMs: number } | null
}

/** What Parley sent to model servers and what they returned, for operators. */
export interface Receipt extends ReceiptFormat {
  readonly calls: readonly CallRecord[]
  /** How many earlier calls are left out; absent if none. */
  readonly calls_omitted?: number
  /** Whether a crash may have lost records of calls. */
  readonly calls_lost?: true
  readonly repair?: Repair
}

export function receiptJson({ repair, ...receipt }: Receipt): string {
  const json = JSON.stringify(receipt)
  if (repair === undefined) return json
  return `${json.slice(0, -1)},${repairMember(repair)}}`
}

/** An execution ends without an outcome if the job must wait for a model server, or if the node releases it. */
export interface WaitingExecution {
  readonly outcome: null
  readonly wait: Omit<WaitingRelease, keyof Claim | 'route'> & {
    /** The job waits for these targets (`upstreams/routes.ts`); null if it waits for none. */
    readonly route: string | null
  }
}

export const INTERNAL_FAILURE: JobError = {
  code: 'model_error',
  message: 'Parley could not run this job because of an internal error. See the server log for details.',
}

export function internalFailure({ earlierJson }: Pick<ClaimedJob, 'earlierJson'>): ExecutionResult {
  return withoutCall({ status: 'failed', error: INTERNAL_FAILURE }, readEarlierRuns(earlierJson))
}

/**
 * Replaces a result that the database permanently rejects. Text from outside may be the reason, so only the usage and the
 * records of calls stay. The usage must count, because it was paid for.
 */
export function notStorable({ usage, receipt }: ExecutionResult): ExecutionResult {
  const message =
    'Parley could not store the outcome of this job because of an internal error. See the server log for details.'
  return {
    outcome: { status: 'failed', error: { code: 'internal_error', message } },
    usage: {
      target: usage.target,
      input_tokens: countOf(usage.input_tokens),
      output_tokens: countOf(usage.output_tokens),
      ...(usage.cached_input_tokens !== undefined && {
        cached_input_tokens: countOf(usage.cached_input_tokens),
      }),
      ...(usage.cost !== undefined && { cost: countOf(usage.cost) }),
      calls: countOf(usage.calls),
      cache_hit: false,
      repaired: false,
    },
    receipt: {
      form: receipt.form,
      calls: receipt.calls,
      ...(receipt.calls_omitted !== undefined && { calls_omitted: receipt.calls_omitted }),
    },
    cache: null,
  }
}

function countOf(value: number): number {
  return value > 0 ? Math.min(Math.floor(value), Number.MAX_SAFE_INTEGER) : 0
}

export function crashedTooOften(job: ClaimedJob): ExecutionResult {
  const times = job.crashCount === 1 ? 'once' : `${job.crashCount} times`
  const message = `The process that ran this job crashed ${times} before the job finished.`
  const earlier = readEarlierRuns(job.earlierJson)
  const result = withoutCall({ status: 'failed', error: { code: 'internal_error', message } }, earlier)
  return { ...result, receipt: { ...result.receipt, calls_lost: true } }
}

export function outOfPatience(
  patienceMs: number,
  trouble: { readonly status: number | null; readonly message: string } | null,
): JobError {
  return {
    code: 'model_error',
    message: `No model server was available within ${patienceMs / 1000} s.`,
    ...(trouble !== null && trouble.status !== null && { upstream_status: trouble.status }),
    ...(trouble !== null && { upstream_message: trouble.message }),
  }
}

export function pastDeadline({ earlierJson }: Pick<ClaimedJob, 'earlierJson'>): ExecutionResult {
  return withoutCall({ status: 'failed', error: DEADLINE_EXCEEDED }, readEarlierRuns(earlierJson))
}

export const DEADLINE_EXCEEDED: JobError = {
  code: 'deadline_exceeded',
  message: 'The job did not finish before its deadline (complete_within).',
}

const NO_CALLS: Receipt = { ...TEXT_FORMAT, calls: [] }

/** A run without a call has the usage of earlier runs. */
export function withoutCall(outcome: Outcome, earlier: EarlierRuns): ExecutionResult {
  const receipt = earlier.calls === 0 ? NO_CALLS : receiptOfEarlier(earlier)
  return { outcome, usage: usageOfEarlier(earlier), receipt, cache: null }
}

/** A job's next run gets the records of at most this many earlier calls, the latest ones. */
export const MAX_CALL_RECORDS = 50

/**
 * If a target can be called, at most this much of a run counts as waiting: a run that ends without an answer pauses between its
 * calls for about this long in total.
 */
const PAUSES_MS = 2_500

/**
 * A run without an outcome leaves this state for the next run of the job: paid calls and tokens, an answer to repair, the tries
 * and broken connections that count against the job, and how long the job has waited.
 */
export interface EarlierRuns extends EarlierUsage {
  readonly records: readonly CallRecord[]
  readonly tries: number
  /**
   * `sinceMs` is when the last run, or the wait for the account's budget, ended (Unix time). `waitedMs` is how long the job had
   * waited for model servers until then.
   */
  readonly sinceMs: number
  readonly waitedMs: number
  readonly repair?: Repair
  /** The calls whose connection broke; absent if none did. Versions up to 0.3 did not store them. */
  readonly breaks?: NonNullable<RequestWait['breaks']>
}

export interface Repair {
  readonly raw_text: RawText
  readonly errors: readonly string[]
}

export const NO_RUNS: EarlierRuns = {
  calls: 0,
  records: [],
  inputTokens: 0,
  outputTokens: 0,
  tries: 0,
  sinceMs: 0,
  waitedMs: 0,
}

export function earlierRunsJson({ repair, ...runs }: EarlierRuns): string {
  const json = JSON.stringify(runs)
  return repair === undefined ? json : `${json.slice(0, -1)},${repairMember(repair)}}`
}

export function repairMember({ raw_text, errors }: Repair): string {
  return `"repair":{"raw_text":${rawTextJson(raw_text)},"errors":${JSON.stringify(errors)}}`
}

/** @param json written by `earlierRunsJson`; nothing else writes this column */
export function readEarlierRuns(json: string | undefined): EarlierRuns {
  return json === undefined ? NO_RUNS : JSON.parse(json)
}

export interface WaitTimes {
  readonly createdAtMs: number
  readonly runStartedMs: number
  readonly nowMs: number
  /** When the targets stopped responding; null if one of them can be called now. */
  readonly unavailableSinceMs: number | null
  /** When a target of the route last became available. If none did since this node started, the time is before that start. */
  readonly availableSinceMs: number
  /** How long the run paused because the job's calls broke; absent if they did not. */
  readonly breakPausesMs?: number
}

/**
 * Returns how long the job has waited for model servers in total. If the targets have been unavailable since before the run
 * began, the wait began then or with the previous run's end (for the first run, with the job's creation), whichever is later.
 * Otherwise, time in the queue counts until a target last became available. If a target can still be called, the pauses between
 * the calls of the run count, too, and pauses after broken calls always count. So a job whose calls always fail at an available
 * target ends, too.
 */
export function waitedMs({ calls, sinceMs, waitedMs: before }: EarlierRuns, times: WaitTimes): number {
  const { createdAtMs, runStartedMs, nowMs, unavailableSinceMs, availableSinceMs, breakPausesMs = 0 } = times
  const beganMs = sinceMs === 0 && calls === 0 ? createdAtMs : sinceMs
  if (unavailableSinceMs !== null && unavailableSinceMs <= runStartedMs) {
    return before + Math.max(0, nowMs - Math.max(beganMs, unavailableSinceMs))
  }
  const pausedMs = unavailableSinceMs === null ? Math.min(nowMs - runStartedMs, PAUSES_MS) : 0
  const queuedMs = sinceMs === 0 ? 0 : Math.max(0, Math.min(availableSinceMs, runStartedMs) - sinceMs)
  return before + queuedMs + Math.max(0, pausedMs) + breakPausesMs
}
