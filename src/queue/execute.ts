/**
 * Runs a claimed job once, to its outcome: recall a kept answer, else ask a model, check, repair once. Nothing is
 * written here; the outcome is settled by the caller.
 */
import type { Clock } from '../clock.ts'
import { answerSchemaOf, readAnswer } from '../job/answer.ts'
import { jobFingerprint } from '../job/fingerprint.ts'
import {
  type ClaimedJob,
  type JobError,
  type Message,
  NO_USAGE,
  type Outcome,
  type ResponseFormat,
  type Usage,
} from '../job/job.ts'
import type { StopSignal } from '../job/stop.ts'
import { meetsStrictRules } from '../json-schema/strict-rules.ts'
import type { Store } from '../store/store.ts'
import type { AnswerForm, CallRecord, Reply, RoutedReply, Router } from '../upstreams/model-server.ts'
import { lookUpResponse } from './response-cache.ts'

export interface ExecuteOptions {
  readonly store: Pick<Store, 'findResponse'>
  readonly router: Router
  readonly clock: Clock
  readonly cacheEnabled: boolean
  readonly maxAttempts: number
}

/** Everything that settling needs to know of a run. */
export interface ExecutionResult {
  readonly outcome: Outcome
  readonly usage: Usage
  readonly receipt: Receipt
  readonly keep: { readonly fingerprint: string; readonly untilMs: number } | null
}

/** What was really sent, and what came back: for the people who operate the service. */
export interface Receipt {
  readonly form: AnswerForm['kind']
  readonly strict?: boolean
  readonly calls: readonly CallRecord[]
  /** The first answer and what it broke, when it had to be repaired. */
  readonly repair?: { readonly raw_text: string; readonly errors: readonly string[] }
}

/** @returns null when the job is to be given back: the signal was stopped for that */
export async function executeJob(
  job: ClaimedJob,
  options: ExecuteOptions,
  signal: StopSignal,
): Promise<ExecutionResult | null> {
  if (job.crashCount >= options.maxAttempts) return spent(job)
  const fingerprint = options.cacheEnabled ? jobFingerprint(job) : null
  const { store, clock } = options
  const kept = fingerprint === null ? null : await lookUpResponse(store, fingerprint, clock, signal)
  if (kept !== null) return recalled(kept)
  const run = new Run(job, fingerprint, options, signal)
  const first = run.replyOf(await run.ask(job.messages, job.messagesJson))
  if (first.kind !== 'answer') return run.endWithout(first)
  const answer = readAnswer(first.text, job.responseFormat)
  if (answer.ok) return run.end(answer.contentJson)
  return await run.repair(first.text, answer.errors)
}

/** The result of a run that ended in an error of Parley's own. */
export function internalFailure(): ExecutionResult {
  const message = 'Parley could not run this job because of an error of its own; its log says which.'
  return failedWithoutCalls({ code: 'model_error', message })
}

/**
 * What is stored where the database rejects the outcome of a run for good. Nothing that was sent to Parley is in it but
 * counts, so it can be stored whatever it was that could not; what the run used is still accounted for.
 */
export function notStorable({ usage, receipt }: ExecutionResult): ExecutionResult {
  const message =
    'The outcome of this job could not be stored because of an error of Parley; its log has the details.'
  return {
    outcome: { status: 'failed', error: { code: 'internal_error', message } },
    usage: {
      target: usage.target,
      input_tokens: countOf(usage.input_tokens),
      output_tokens: countOf(usage.output_tokens),
      calls: countOf(usage.calls),
      cache_hit: false,
      repaired: false,
    },
    receipt: { form: receipt.form, calls: receipt.calls },
    keep: null,
  }
}

/** A count that fits any column for counts. */
function countOf(value: number): number {
  return value > 0 ? Math.min(Math.floor(value), Number.MAX_SAFE_INTEGER) : 0
}

function spent(job: ClaimedJob): ExecutionResult {
  const message = `The process that ran this job ended ${job.crashCount} times before the job did.`
  return failedWithoutCalls({ code: 'model_error', message })
}

function failedWithoutCalls(error: JobError): ExecutionResult {
  return {
    outcome: { status: 'failed', error },
    usage: NO_USAGE,
    receipt: { form: 'text', calls: [] },
    keep: null,
  }
}

function recalled(contentJson: string): ExecutionResult {
  const usage = { ...NO_USAGE, cache_hit: true }
  return {
    outcome: { status: 'completed', contentJson },
    usage,
    receipt: { form: 'text', calls: [] },
    keep: null,
  }
}

/** One run that calls models, and what it has used so far. */
class Run {
  readonly #job: ClaimedJob
  readonly #options: ExecuteOptions
  readonly #signal: StopSignal
  readonly #form: AnswerForm
  /** Null where no answer is kept. */
  readonly #fingerprint: string | null
  #target: string | null = null
  #calls: readonly CallRecord[] = []
  #inputTokens = 0
  #outputTokens = 0
  #repair: { raw_text: string; errors: readonly string[] } | undefined

  constructor(job: ClaimedJob, fingerprint: string | null, options: ExecuteOptions, signal: StopSignal) {
    this.#job = job
    this.#fingerprint = fingerprint
    this.#options = options
    this.#signal = signal
    this.#form = formOf(job.responseFormat)
  }

  ask(messages: readonly Message[], messagesJson?: string): Promise<RoutedReply> {
    const { model, tier, inputTokens } = this.#job
    const prompt = { messages, messagesJson, form: this.#form }
    return this.#options.router.ask({ model, tier, inputTokens, prompt }, this.#signal)
  }

  /** Notes what asking used. */
  replyOf({ reply, target, calls, tokens }: RoutedReply): Reply {
    this.#target = target
    this.#calls = this.#calls.concat(calls)
    this.#inputTokens += tokens.input
    this.#outputTokens += tokens.output
    return reply
  }

  /** Shows the model what its answer broke, and asks once more. */
  async repair(raw: string, errors: readonly string[]): Promise<ExecutionResult | null> {
    this.#repair = { raw_text: raw, errors }
    const second = this.replyOf(await this.ask(this.#withRequestToRepair(raw, errors)))
    if (second.kind !== 'answer') return this.endWithout(second)
    const repaired = readAnswer(second.text, this.#job.responseFormat)
    if (repaired.ok) return this.end(repaired.contentJson)
    return this.#fail({
      code: 'validation_error',
      message: 'The model did not answer in the form that was asked for, and one repair did not help.',
      errors: repaired.errors,
      raw_text: second.text,
    })
  }

  #withRequestToRepair(raw: string, errors: readonly string[]): readonly Message[] {
    const list = errors.map((error) => `- ${error}`).join('\n')
    const request = `Your answer does not have the form that was asked for:\n${list}\nAnswer again, with the corrected JSON and nothing else.`
    return [...this.#job.messages, { role: 'assistant', content: raw }, { role: 'user', content: request }]
  }

  endWithout(reply: Exclude<Reply, { kind: 'answer' }>): ExecutionResult | null {
    const { reason } = this.#signal
    if (reason === 'give back' || reason === 'lost') return null
    if (reason === 'deadline') {
      return this.#fail({ code: 'timeout', message: 'The job did not end within its run time-out.' })
    }
    const status = reply.status === null ? {} : { upstream_status: reply.status }
    if (reply.kind === 'refused') {
      const message = 'The model declined to answer for reasons of content policy.'
      return this.#fail({
        code: 'content_policy_violation',
        message,
        ...status,
        upstream_message: reply.message,
      })
    }
    const [code, message] = reply.timedOut
      ? (['timeout', 'The model server did not answer in time.'] as const)
      : (['model_error', 'The model server did not give an answer.'] as const)
    return this.#fail({ code, message, ...status, upstream_message: reply.message })
  }

  end(contentJson: string): ExecutionResult {
    return this.#result({ status: 'completed', contentJson })
  }

  #fail(error: JobError): ExecutionResult {
    return this.#result({ status: 'failed', error })
  }

  #result(outcome: Outcome): ExecutionResult {
    const usage: Usage = {
      target: this.#target,
      input_tokens: this.#inputTokens,
      output_tokens: this.#outputTokens,
      calls: this.#calls.length,
      cache_hit: false,
      repaired: this.#repair !== undefined && outcome.status === 'completed',
    }
    const receipt: Receipt = {
      form: this.#form.kind,
      ...(this.#form.kind === 'schema' && { strict: this.#form.strict }),
      calls: this.#calls,
      ...(this.#repair && { repair: this.#repair }),
    }
    return { outcome, usage, receipt, keep: this.#keepIf(outcome.status === 'completed') }
  }

  #keepIf(completed: boolean): ExecutionResult['keep'] {
    if (!completed || this.#fingerprint === null) return null
    const untilMs = this.#options.clock.nowMs() + this.#job.cacheTtlMs
    return { fingerprint: this.#fingerprint, untilMs }
  }
}

function formOf(format: ResponseFormat): AnswerForm {
  if (format.format === 'text') return { kind: 'text' }
  if (!format.schema) return { kind: 'json' }
  const strict = meetsStrictRules(answerSchemaOf(format.schema))
  return { kind: 'schema', schema: format.schema, strict }
}
