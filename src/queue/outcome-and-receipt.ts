/** What an execution returns, for the worker to settle: the outcome, the usage and the receipt. */
import type { ClaimedJob, JobError, Outcome, Usage } from '../job/job.ts'
import {
  type ReceiptFormat,
  receiptOfEarlier,
  TEXT_FORMAT,
  usageOfEarlier,
} from '../job/results-without-call.ts'
import type { Claim } from '../store/node-store.ts'
import type { WaitingRelease } from '../store/store.ts'
import type { CallRecord } from '../upstreams/model-server.ts'
import { type EarlierRuns, type Repair, readEarlierRuns, repairMember } from './earlier-runs.ts'

/** Everything that settling needs to know about an execution. */
export interface ExecutionResult {
  readonly outcome: Outcome
  readonly usage: Usage
  readonly receipt: Receipt
  /** Caches the response for identical later jobs; null if it must not be cached. */
  readonly cache: { readonly fingerprint: string; readonly untilMs: number } | null
}

/** What was sent to model servers and what they returned, for operators. */
export interface Receipt extends ReceiptFormat {
  readonly calls: readonly CallRecord[]
  /** How many earlier calls are left out; absent if none. */
  readonly calls_omitted?: number
  /** Whether a crash may have lost records of calls. */
  readonly calls_lost?: true
  /** The answer that had to be repaired, and the rules that it violated. */
  readonly repair?: Repair
}

/** The stored form of the receipt. */
export function receiptJson({ repair, ...receipt }: Receipt): string {
  const json = JSON.stringify(receipt)
  if (repair === undefined) return json
  return `${json.slice(0, -1)},${repairMember(repair)}}`
}

/** The end of an execution without an outcome: the job must wait for a model server, or the node releases it. */
export interface WaitingExecution {
  readonly outcome: null
  readonly wait: Omit<WaitingRelease, keyof Claim | 'route'> & {
    /** The targets for which the job waits (`upstreams/routes.ts`); null if it waits for none. */
    readonly route: string | null
  }
}

/** The error of a job whose execution failed because of a bug in Parley. */
export const INTERNAL_FAILURE: JobError = {
  code: 'model_error',
  message: 'Parley could not run this job because of an internal error. See the server log for details.',
}

/** The result of a job that failed because of a bug in Parley before it called a model. */
export function internalFailure({ earlierJson }: Pick<ClaimedJob, 'earlierJson'>): ExecutionResult {
  return withoutCall({ status: 'failed', error: INTERNAL_FAILURE }, readEarlierRuns(earlierJson))
}

/**
 * Replaces a result that the database permanently rejects. Everything from outside except counts and the records of calls is
 * left out, so it can be stored, and the usage still counts.
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

/** Limits a count to numbers that its column can store. */
function countOf(value: number): number {
  return value > 0 ? Math.min(Math.floor(value), Number.MAX_SAFE_INTEGER) : 0
}

/** The result of a job that has crashed too often to be executed again. */
export function crashedTooOften(job: ClaimedJob): ExecutionResult {
  const times = job.crashCount === 1 ? 'once' : `${job.crashCount} times`
  const message = `The process that ran this job crashed ${times} before the job finished.`
  const earlier = readEarlierRuns(job.earlierJson)
  const result = withoutCall({ status: 'failed', error: { code: 'internal_error', message } }, earlier)
  return { ...result, receipt: { ...result.receipt, calls_lost: true } }
}

/** The error of a job that has waited too long for model servers. */
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

/** The result of a job whose deadline passed before it ran. */
export function pastDeadline({ earlierJson }: Pick<ClaimedJob, 'earlierJson'>): ExecutionResult {
  return withoutCall({ status: 'failed', error: DEADLINE_EXCEEDED }, readEarlierRuns(earlierJson))
}

export const DEADLINE_EXCEEDED: JobError = {
  code: 'deadline_exceeded',
  message: 'The job did not finish before its deadline (complete_within).',
}

const NO_CALLS: Receipt = { ...TEXT_FORMAT, calls: [] }

/** The result of a run without a call: it has the usage of earlier runs. */
export function withoutCall(outcome: Outcome, earlier: EarlierRuns): ExecutionResult {
  const receipt = earlier.calls === 0 ? NO_CALLS : receiptOfEarlier(earlier)
  return { outcome, usage: usageOfEarlier(earlier), receipt, cache: null }
}
