/**
 * Executes a job until it has an outcome: looks for the cached response of a claimed job, calls a model, checks the answer, and
 * asks for one repair if the answer is wrong. A wrong answer that was truncated at a length limit fails the job at once. The
 * execution writes nothing; the worker settles the outcome.
 */
import type { Clock } from '../clock.ts'
import { sumOfCosts } from '../job/amount.ts'
import { type Answer, repairRequest } from '../job/answer.ts'
import type { ClaimedJob, JobError, Outcome, RawText, Usage } from '../job/job.ts'
import { namedOption } from '../job/options.ts'
import type { Priority } from '../job/priority.ts'
import type { SchemaFacts } from '../job/read-schemas.ts'
import { formatParts, splitOptions, TEXT, TEXT_JSON } from '../job/response-format.ts'
import { type ReceiptFormat, TEXT_FORMAT } from '../job/results-without-call.ts'
import type { StopSignal } from '../job/stop.ts'
import type { Store } from '../store/store.ts'
import type { AnswerForm, CallRecord, Reply, RequestWait, Router } from '../upstreams/model-server.ts'
import { BYTES_PER_TOKEN, type ContextShifts } from './context-shift.ts'
import {
  crashedTooOften,
  DEADLINE_EXCEEDED,
  type EarlierRuns,
  type ExecutionResult,
  earlierRunsJson,
  INTERNAL_FAILURE,
  MAX_CALL_RECORDS,
  NO_RUNS,
  outOfPatience,
  pastDeadline,
  type Receipt,
  type Repair,
  readEarlierRuns,
  type WaitingExecution,
  waitedMs,
} from './execution-result.ts'
import type { AnswerReader } from './read-answer.ts'
import { type CacheKeyOf, cacheEntry, fromCache, isLarge, lookUpResponse, Turns } from './response-cache.ts'

export interface ExecuteOptions {
  readonly store: Pick<Store, 'findResponse'>
  readonly router: Router
  readonly answers: Pick<AnswerReader, 'read' | 'schemaFacts'>
  readonly contextShifts: Pick<ContextShifts, 'check'>
  readonly clock: Clock
  readonly cacheKeyOf: CacheKeyOf
  readonly maxAttempts: number
  /** How long a job waits for model servers in total (`jobs.patience_seconds`). */
  readonly patienceMs: number
  /** The function is absent if no model has a price. */
  readonly isPriced?: (model: string) => boolean
  readonly onError: (message: string, error: unknown) => void
}

/** What an execution reports to the scheduler, and what the scheduler tells the execution. */
export interface ExecutionEvents {
  /** The execution calls this before its first call to the upstream, which counts the job from then on. */
  arrived(): void
  /** While the job waits for a slot of the upstream, it has this priority; absent for normal. */
  readonly priority?: Priority
  /** When the first call has its slot of the upstream, the execution awaits this before it sends the call. */
  readonly beforeCall?: () => Promise<void>
}

/**
 * Resolves to null if this node no longer holds the job, or if it releases the job before anything was paid for.
 * @param cacheKey the job's key if the store has just found no cached response for it; undefined to look for one now
 */
export type ExecuteJob = (
  job: ClaimedJob,
  signal: StopSignal,
  cacheKey?: string | null,
  events?: ExecutionEvents,
) => Promise<ExecutionResult | WaitingExecution | null>

export function createExecuteJob(options: ExecuteOptions): ExecuteJob {
  const { store, clock, maxAttempts, cacheKeyOf, isPriced, onError } = options
  const turns = new Turns()
  return async function executeJob(job, signal, cacheKey, events) {
    const isOfPriced = isPriced?.(job.model) === true
    if (signal.reason === 'deadline') return withCost(pastDeadline(job), isOfPriced)
    if (job.crashCount >= maxAttempts && job.crashedAlone) return withCost(crashedTooOften(job), isOfPriced)
    const earlier = job.earlierJson === undefined ? NO_RUNS : readEarlierRuns(job.earlierJson)
    const mustWait = isLarge(job)
    if (mustWait) await turns.next()
    const isCached = cacheKey === undefined && job.cacheTtlMs > 0
    const fingerprint = isCached ? cacheKeyOf(job) : (cacheKey ?? null)
    if (cacheKey === undefined && fingerprint !== null) {
      const found = lookUpResponse(store, fingerprint, clock, signal)
      const cached = found === null ? null : await found
      if (cached !== null) return withCost(fromCache(cached, earlier), isOfPriced)
      if (mustWait) await turns.next()
    }
    const form = job.responseFormatJson === TEXT_JSON ? TEXT : formOf(job, options.answers, signal)
    const execution = new Execution(
      job,
      form instanceof Promise ? await form : form,
      fingerprint,
      options,
      signal,
      earlier,
      events,
    )
    try {
      if (earlier.repair) return await execution.repair(earlier.repair.raw_text, earlier.repair.errors)
      const first = await execution.ask(job.messagesJson)
      if (first.kind !== 'answer') return execution.failWithout(first)
      const answer = await options.answers.read(job, first.text, signal)
      if (answer === null) return execution.stopped()
      if (first.truncated && isCutOff(answer)) return execution.failCutOff(answer)
      if (answer.ok) return execution.end({ status: 'completed', contentJson: answer.contentJson })
      return answer.kind === 'wrong'
        ? await execution.repair(answer.raw, answer.errors)
        : execution.failUnchecked(answer.reason, answer.raw)
    } catch (error) {
      // For example, a thread may have crashed while it read the answer. The call was paid for, so its usage must still count.
      onError(`executing job ${job.id} failed`, error)
      return execution.failInternally()
    }
  }
}

/** Every job whose model has a price must have a cost, even if no model was called. */
function withCost(result: ExecutionResult, isPriced: boolean): ExecutionResult {
  return isPriced ? { ...result, usage: { ...result.usage, cost: result.usage.cost ?? 0 } } : result
}

/** Returns the error of a job that exceeded its deadline or run timeout; null if it was stopped for another reason. */
function errorOfStop({ reason }: StopSignal): JobError | null {
  if (reason === 'deadline') return DEADLINE_EXCEEDED
  if (reason !== 'timeout') return null
  return { code: 'timeout', message: 'The job did not finish within its run timeout.' }
}

/** Runs one job, and keeps its usage, including that of earlier runs. */
class Execution {
  readonly #job: ClaimedJob
  readonly #options: ExecuteOptions
  readonly #signal: StopSignal
  readonly #form: AnswerForm
  readonly #optionsJson: string | null
  /** The fingerprint is null if the job does not use the response cache. */
  readonly #fingerprint: string | null
  #target: string | null = null
  #calls: readonly CallRecord[]
  #inputTokens: number
  #outputTokens: number
  #cachedTokens: number
  /** The cost is undefined if the model has no price. */
  #cost: number | undefined
  #isCut = false
  #repair: Repair | undefined
  readonly #earlier: EarlierRuns
  readonly #priority: Priority | undefined
  /** Only the first call reports events, so `#events` is undefined afterwards. */
  #events: ExecutionEvents | undefined
  /** `#calls` no longer contains this many calls of earlier runs. */
  readonly #omittedCalls: number
  readonly #startedMs: number
  /** `#wait` is set if the request must be repeated later, because no target is available or a rate limit is reached. */
  #wait: RequestWait | undefined

  constructor(
    job: ClaimedJob,
    form: AnswerForm,
    fingerprint: string | null,
    options: ExecuteOptions,
    signal: StopSignal,
    earlier: EarlierRuns,
    events: ExecutionEvents | undefined,
  ) {
    this.#earlier = earlier
    this.#events = events
    this.#priority = events?.priority
    this.#calls = earlier.records
    this.#omittedCalls = earlier.calls - earlier.records.length
    this.#inputTokens = earlier.inputTokens
    this.#outputTokens = earlier.outputTokens
    this.#cachedTokens = earlier.cachedTokens ?? 0
    this.#cost = earlier.cost ?? (options.isPriced?.(job.model) ? 0 : undefined)
    this.#startedMs = options.clock.nowMs()
    this.#job = job
    this.#form = form
    const { responseFormatJson } = job
    this.#optionsJson = responseFormatJson === TEXT_JSON ? null : splitOptions(responseFormatJson).optionsJson
    this.#fingerprint = fingerprint
    this.#options = options
    this.#signal = signal
  }

  failInternally(): ExecutionResult {
    return this.#fail(INTERNAL_FAILURE)
  }

  async ask(messagesJson: string): Promise<Reply> {
    const { id: jobId, account, model, tier, inputTokens } = this.#job
    const optionsJson = this.#optionsJson
    const prompt = { account, messagesJson, form: this.#form, ...(optionsJson !== null && { optionsJson }) }
    const { tries, breaks } = this.#wait ?? this.#earlier
    const beforeCall = this.#events?.beforeCall
    this.#events?.arrived()
    this.#events = undefined
    const request = {
      jobId,
      tries,
      account,
      model,
      tier,
      inputTokens,
      prompt,
      ...(this.#priority && { priority: this.#priority }),
      ...(breaks && { breaks }),
      ...(beforeCall && { beforeCall }),
    }
    const { reply, target, calls, tokens, wait } = await this.#options.router.ask(request, this.#signal)
    this.#target = target
    this.#wait = wait
    this.#calls = this.#calls.length === 0 ? calls : this.#calls.concat(calls)
    this.#inputTokens += tokens.input
    this.#outputTokens += tokens.output
    this.#cachedTokens += tokens.cached ?? 0
    for (const { cost } of calls) if (cost !== undefined) this.#cost = sumOfCosts(this.#cost ?? 0, cost)
    this.#isCut = reply.kind !== 'refused' && reply.truncated === true
    if (reply.kind === 'answer' && Buffer.byteLength(messagesJson) > BYTES_PER_TOKEN * reply.tokens.input) {
      void this.#options.contextShifts.check(this.#job, messagesJson, target, reply.tokens.input)
    }
    return reply
  }

  async repair(raw: RawText, errors: readonly string[]): Promise<ExecutionResult | WaitingExecution | null> {
    this.#repair = { raw_text: raw, errors }
    const { messagesJson, responseFormatJson } = this.#job
    const second = await this.ask(repairRequest(messagesJson, responseFormatJson, raw, errors))
    if (second.kind !== 'answer') return this.failWithout(second)
    const repaired = await this.#options.answers.read(this.#job, second.text, this.#signal)
    if (repaired === null) return this.stopped()
    if (second.truncated && isCutOff(repaired)) return this.failCutOff(repaired)
    if (repaired.ok) return this.end({ status: 'completed', contentJson: repaired.contentJson })
    if (repaired.kind === 'not checked') return this.failUnchecked(repaired.reason, repaired.raw)
    return this.#fail({
      code: 'validation_error',
      message: 'The answer of the model did not match the requested format, even after one repair.',
      errors: repaired.errors,
      raw_text: repaired.raw,
    })
  }

  /** The schema prevents the check, so a repair would not help. */
  failUnchecked(reason: string, raw: RawText): ExecutionResult {
    const message = `The answer could not be checked against the schema: ${reason}. Simplify the schema, for example by using fewer branches that match the same value.`
    return this.#fail({ code: 'answer_not_checked', message, raw_text: raw })
  }

  /** A repair would probably reach the same limit, so the job fails at once. */
  failCutOff(answer: Answer): ExecutionResult {
    return this.#fail({
      code: 'validation_error',
      message: 'The answer was cut off because the model reached its length limit (finish_reason: length).',
      errors: ['the answer was cut off at the length limit of the model'],
      raw_text: answer.ok ? answer.contentJson : answer.raw,
    })
  }

  /**
   * Returns a failure if the job exceeded its deadline or run timeout. If the node releases the job, the result keeps what was
   * paid for, so that another node continues from there. The result is null if nothing was paid for, or if this node no longer
   * holds the job.
   */
  stopped(): ExecutionResult | WaitingExecution | null {
    const error = errorOfStop(this.#signal)
    if (error !== null) return this.#fail(error)
    const { inputTokens, outputTokens, waitedMs: waited } = this.#earlier
    const hasPaid = this.#inputTokens + this.#outputTokens > inputTokens + outputTokens
    if (this.#signal.reason !== 'release' || !(hasPaid || this.#repair)) return null
    return this.#continueLater({ ...this.#earlier, route: null }, waited)
  }

  failWithout(reply: Exclude<Reply, { kind: 'answer' }>): ExecutionResult | WaitingExecution | null {
    if (this.#signal.reason !== null) return this.stopped()
    if (this.#wait !== undefined) return this.#waitOrFail(this.#wait, reply)
    const status = reply.status === null ? {} : { upstream_status: reply.status }
    if (reply.kind === 'refused') {
      const message = 'The model declined to answer because of its content policy.'
      return this.#fail({
        code: 'content_policy_violation',
        message,
        ...status,
        upstream_message: reply.message,
      })
    }
    const [code, message] = reply.timedOut
      ? (['timeout', 'The model server did not respond in time.'] as const)
      : (['model_error', this.#rejection(reply) ?? 'The model server did not return an answer.'] as const)
    return this.#fail({ code, message, ...status, upstream_message: reply.message })
  }

  /** Returns the message for a server that rejects an option of the job; null for other errors. */
  #rejection({ status, message }: Exclude<Reply, { kind: 'answer' }>): string | null {
    if (this.#optionsJson === null || !(status === 400 || status === 422)) return null
    const option = namedOption(this.#optionsJson, message)
    return option && `The model server rejected options.${option} of the job.`
  }

  /** Releases the job to wait for a model server, or fails it if it has waited too long. */
  #waitOrFail(
    wait: RequestWait,
    reply: Exclude<Reply, { kind: 'answer' }>,
  ): ExecutionResult | WaitingExecution {
    const { trouble, isForRate } = wait
    const nowMs = this.#options.clock.nowMs()
    const { createdAtMs } = this.#job
    const times = { ...wait, createdAtMs, runStartedMs: this.#startedMs, nowMs }
    const waited = isForRate ? this.#earlier.waitedMs : waitedMs(this.#earlier, times)
    const { patienceMs } = this.#options
    if (!isForRate && waited >= patienceMs) return this.#fail(outOfPatience(patienceMs, trouble ?? reply))
    return this.#continueLater(wait, waited)
  }

  /** @param waited how many milliseconds the job has waited for model servers in total */
  #continueLater(
    { route, tries, breaks }: Pick<EarlierRuns, 'tries' | 'breaks'> & Pick<WaitingExecution['wait'], 'route'>,
    waited: number,
  ): WaitingExecution {
    const nowMs = this.#options.clock.nowMs()
    const runs: EarlierRuns = {
      calls: this.#calls.length + this.#omittedCalls,
      records: this.#calls.slice(-MAX_CALL_RECORDS),
      inputTokens: this.#inputTokens,
      outputTokens: this.#outputTokens,
      ...(this.#cachedTokens > 0 && { cachedTokens: this.#cachedTokens }),
      ...(this.#cost !== undefined && { cost: this.#cost }),
      tries,
      sinceMs: nowMs,
      waitedMs: waited,
      ...(this.#form.kind !== 'text' && { format: receiptFormat(this.#form) }),
      ...(this.#repair && { repair: this.#repair }),
      ...(breaks && { breaks }),
    }
    const earlierJson = earlierRunsJson(runs)
    return { outcome: null, wait: { route, earlierJson, sinceMs: nowMs, waitedMs: waited } }
  }

  #fail(error: JobError): ExecutionResult {
    return this.end({ status: 'failed', error })
  }

  end(outcome: Outcome): ExecutionResult {
    const completed = outcome.status === 'completed'
    const usage: Usage = {
      target: this.#target,
      input_tokens: this.#inputTokens,
      output_tokens: this.#outputTokens,
      ...(this.#cachedTokens > 0 && { cached_input_tokens: this.#cachedTokens }),
      ...(this.#cost !== undefined && { cost: this.#cost }),
      ...(this.#isCut && { finish_reason: 'length' as const }),
      calls: this.#calls.length + this.#omittedCalls,
      cache_hit: false,
      repaired: this.#repair !== undefined && completed,
    }
    const receipt: Receipt = {
      ...(this.#form.kind === 'text' ? TEXT_FORMAT : receiptFormat(this.#form)),
      calls: this.#calls,
      ...(this.#omittedCalls > 0 && { calls_omitted: this.#omittedCalls }),
      ...(this.#repair && { repair: this.#repair }),
    }
    const cache = cacheEntry(outcome, this.#isCut, this.#fingerprint, this.#job, this.#options.clock.nowMs())
    return { outcome, usage, receipt, cache }
  }
}

function receiptFormat(form: AnswerForm): ReceiptFormat {
  const { kind } = form
  if (kind !== 'schema') return { form: kind }
  const { strict, ignored } = form
  return { form: kind, strict, ...(ignored && { ignored }) }
}

/**
 * Whether a truncated answer may be incomplete JSON. For example, a number could have more digits. A text counts as complete.
 */
function isCutOff(answer: Answer): boolean {
  return answer.ok ? /\d$/.test(answer.contentJson) : answer.kind === 'wrong'
}

function formOf(
  job: ClaimedJob,
  answers: Pick<AnswerReader, 'schemaFacts'>,
  signal: StopSignal,
): AnswerForm | Promise<AnswerForm> {
  const parts = formatParts(job.responseFormatJson)
  if (parts.kind !== 'schema') return parts
  const facts = answers.schemaFacts(job, parts.schemaJson, signal)
  const withFacts = (facts: SchemaFacts): AnswerForm => ({ ...parts, ...facts })
  return facts instanceof Promise ? facts.then(withFacts) : withFacts(facts)
}
