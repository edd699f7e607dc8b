/**
 * Sends one request to one target: waits for a slot of its upstream, calls the target if the circuit breakers permit it, and
 * repeats the call in another format if the server rejects the format. Records what each call shows about the target, its
 * upstream, the account, the job and its schema.
 */
import type { Clock } from '../clock.ts'
import { pause, type StopSignal } from '../job/stop.ts'
import {
  afterBreak,
  type BrokenCall,
  breakPauseMs,
  type CallStart,
  type Hold,
  isCareful,
  isIsolated,
  isSentWithoutSchema,
  NO_BREAKS,
  SchemaBreaks,
  schemaFingerprint,
} from './breaks.ts'
import { sendsSchema } from './build-request.ts'
import { failureKind, isWaitedFor, troubleOf } from './failure-kinds.ts'
import type {
  CallRecord,
  ConnectionFault,
  JobBreaks,
  ModelRequest,
  Reply,
  RequestFormat,
  RoutedReply,
  TokenCount,
} from './model-server.ts'
import { NO_TOKENS, sumOfTokens } from './read-completion.ts'
import { boundedRetryAfterMs } from './retry-after.ts'
import type { Target } from './routing-table.ts'
import type { CallResult } from './target-health.ts'
import type { RatePermit } from './target-rates.ts'

/** One call to an upstream, for metrics and traces. It must contain no text of the conversation. */
export interface CallEvent {
  readonly upstream: string
  readonly model: string
  readonly kind: Reply['kind']
  readonly status: number | null
  /** This is true if Parley itself ended the call, which is then neither a success nor a failure of the upstream. */
  readonly aborted: boolean
  readonly isTruncated: boolean
  readonly ms: number
}

/** A call that ended in an error, for the log. It omits the server's message, which may quote the conversation. */
export interface FailedCall extends CallEvent {
  readonly jobId: string
  readonly code: string | null
  readonly connection: ConnectionFault | null
  readonly timedOut: boolean
  readonly broke?: NonNullable<CallRecord['broke']>
}

export interface CallListener {
  /** Returns the cost of a call in millionths of the currency; null if the target has no price. */
  readonly costOf?: (model: string, target: string, tokens: TokenCount) => number | null
  readonly onCall?: (call: CallEvent) => void
  /** `TargetCaller` calls this after `onCall` for each call that ended in an error, unless Parley itself ended the call. */
  readonly onFailedCall?: (call: FailedCall) => void
}

export interface RoutingAttempt extends RoutedReply {
  readonly request: ModelRequest
  readonly targets: readonly Target[]
  readonly signal: StopSignal
  reply: Reply
  target: string | null
  readonly calls: CallRecord[]
  tokens: TokenCount
  tries: number
  breaks: JobBreaks
  /** The request has paused for this time because its calls broke, in whole milliseconds. */
  breakPausesMs: number
  hasBegun: boolean
  /**
   * If true, the last call failed because the upstream had more calls than it is known to handle, or because the limit has
   * changed since. The job is then not to blame.
   */
  isBeyondProven: boolean
  /** This is null if the connection of the last call did not break. */
  broke: { readonly fails: boolean } | null
  permit: RatePermit | null
  /** The jobs of the route that wait on this node. This job is among them while it waits. */
  readonly waiting: Set<string>
}

export type Called = 'called' | 'circuit open' | 'stopped'

export const MAX_TRIES = 3
const WEIGHT_ALONE = 1

export class TargetCaller {
  readonly #clock: Clock
  readonly #isPatient: boolean
  readonly #listener: CallListener
  readonly #weightOf: (tier: string) => number
  readonly #schemas = new SchemaBreaks()
  /** `TargetCaller` calls this when a call has ended, so that another call can start. */
  onRoom: () => void = () => {}

  constructor(clock: Clock, isPatient: boolean, listener: CallListener, weightOf: (tier: string) => number) {
    this.#clock = clock
    this.#isPatient = isPatient
    this.#listener = listener
    this.#weightOf = weightOf
  }

  call(target: Target, attempt: RoutingAttempt): Promise<Called> {
    // Nearly every call takes this shortcut: the job has not failed before, so it need not take turns.
    if (attempt.tries === 0 && attempt.breaks === NO_BREAKS) return this.#callWithSlot(target, attempt)
    return this.inTurn(target, attempt, () => this.callNow(target, attempt))
  }

  /** Runs `call` when it is the job's turn at the target. Most jobs need not wait for a turn. */
  async inTurn<Result>(
    target: Target,
    attempt: RoutingAttempt,
    call: () => Promise<Result>,
  ): Promise<Result | Called> {
    if (!takesTurns(attempt)) return call()
    // A job that will not call must not delay others.
    if (this.isSkipped(target, attempt)) return 'circuit open'
    const { account } = attempt.request
    const { alone } = target
    const { signal } = attempt
    if (!(await this.#paused(attempt, () => alone.acquire(account, WEIGHT_ALONE, signal)))) return 'stopped'
    try {
      return await call()
    } finally {
      alone.release(account)
    }
  }

  /**
   * Call this only in the job's turn (`inTurn`). An isolated job first waits, for at most `HOLD_MS`, until the upstream has no
   * other call in progress.
   */
  callNow(target: Target, attempt: RoutingAttempt): Promise<Called> {
    return isIsolated(attempt.breaks)
      ? this.#callIsolated(target, attempt)
      : this.#callWithSlot(target, attempt)
  }

  async #callIsolated(target: Target, attempt: RoutingAttempt): Promise<Called> {
    const hold = await this.#paused(attempt, () => target.breaks.hold(attempt.signal))
    if (hold === null) return 'stopped'
    try {
      return await this.#callIfPermitted(target, attempt, hold)
    } finally {
      hold.end()
      this.onRoom()
    }
  }

  /** A job without patience does not pause, because it must fail soon. Resolves with false if the signal stopped the job. */
  async pauseAfterBreaks(target: Target, attempt: RoutingAttempt): Promise<boolean> {
    const { breaks, signal } = attempt
    const ms = breakPauseMs(breaks, this.#clock.nowMs())
    if (!this.#isPatient || ms <= 0 || this.isSkipped(target, attempt)) return true
    const startedMs = this.#clock.steadyMs()
    const goesOn = await this.#paused(attempt, () => pause(this.#clock, ms, signal, target.breaks.wakers))
    attempt.breakPausesMs += Math.round(this.#clock.steadyMs() - startedMs)
    return goesOn
  }

  /**
   * Returns whether an open circuit breaker forbids the account to call the target. Without patience, a job calls nevertheless
   * if the breakers of all its targets are open: a call that may fail is better than a failure without a call.
   */
  isSkipped({ health }: Target, { request: { account }, targets }: RoutingAttempt): boolean {
    return health.isOpen(account) && (this.#isPatient || !targets.every((one) => one.health.isOpen(account)))
  }

  /** Pauses the job's time limit while a patient job waits, because waiting behind other jobs is not part of a run. */
  async #paused<Result>(
    { signal, waiting, request }: RoutingAttempt,
    wait: () => Result | Promise<Result>,
  ): Promise<Result> {
    if (this.#isPatient) signal.pause()
    waiting.add(request.jobId)
    const result = await wait()
    waiting.delete(request.jobId)
    if (this.#isPatient) signal.resume()
    return result
  }

  async #callWithSlot(target: Target, attempt: RoutingAttempt): Promise<Called> {
    const { slots } = target.upstream
    const { signal, request } = attempt
    const { account, tier, priority } = request
    if (signal.reason !== null) return 'stopped'
    if (!slots.tryAcquire(account)) {
      // A request that could use another target must not wait for a slot at a failing one.
      if (this.isSkipped(target, attempt)) return 'circuit open'
      const weight = this.#weightOf(tier)
      if (!(await this.#paused(attempt, () => slots.acquire(account, weight, signal, priority))))
        return 'stopped'
    }
    try {
      return await this.#callIfPermitted(target, attempt, null)
    } finally {
      slots.release(account)
      this.onRoom()
    }
  }

  /** @param hold present for an isolated job, which needs no slot because no other job gets one */
  async #callIfPermitted(target: Target, attempt: RoutingAttempt, hold: Hold | null): Promise<Called> {
    // A breaker may have opened while the request waited for the slot.
    if (this.isSkipped(target, attempt)) return 'circuit open'
    const { health, breaks } = target
    const { request, signal } = attempt
    const { account, jobId, beforeCall } = request
    if (!attempt.hasBegun && beforeCall !== undefined) {
      attempt.hasBegun = true
      await beforeCall()
      if (signal.reason !== null) return 'stopped'
      // A breaker may have opened during `beforeCall`.
      if (this.isSkipped(target, attempt)) return 'circuit open'
    }
    const breaksBefore = breaks.began()
    health.began(account, jobId)
    let result: CallResult = IGNORED
    try {
      result = await this.#callInFormats(target, attempt, { breaksBefore, hold })
      return 'called'
    } finally {
      health.ended(account, jobId, result)
      breaks.ended()
    }
  }

  async #callInFormats(
    target: Target,
    attempt: RoutingAttempt,
    start: Pick<CallStart, 'breaksBefore' | 'hold'>,
  ): Promise<CallResult> {
    const { limits, server, slots } = target.upstream
    const { request, signal } = attempt
    const { account, prompt, jobId } = request
    const { form } = prompt
    const begun = limits.changes
    attempt.broke = null
    const avoidsSchema =
      form.kind === 'schema' &&
      (isSentWithoutSchema(attempt.breaks) || this.#schemas.isAvoided(form.schemaJson, this.#clock.nowMs()))
    let format = server.requestFormat(target.model, prompt, avoidsSchema)
    for (;;) {
      const [startedAtMs, atMs] = [this.#clock.steadyMs(), this.#clock.nowMs()]
      attempt.permit?.sent()
      const reply = await server.ask(target.model, prompt, format, signal)
      const endedAtMs = this.#clock.steadyMs()
      const broke =
        reply.kind === 'error' && reply.broke === true
          ? target.breaks.broke({ ...start, jobId, isCareful: isCareful(attempt.breaks) })
          : null
      const cost = this.#listener.costOf?.(request.model, target.name, reply.tokens ?? NO_TOKENS) ?? null
      const sent = { at_ms: atMs, ms: endedAtMs - startedAtMs, ...(cost !== null && { cost }), ...format }
      this.#record(attempt, target, reply, recordOf(target, request, sent, reply, broke))
      if (attempt.permit?.answered(reply)) return IGNORED
      if (reply.kind !== 'error') {
        target.breaks.answered(jobId)
        if (form.kind === 'schema' && sendsSchema(format)) this.#schemas.answered(form.schemaJson)
        limits.succeeded(account, begun, endedAtMs, slots)
        return SUCCESS
      }
      if (reply.aborted) return IGNORED
      if (broke !== null) {
        const nowMs = this.#clock.nowMs()
        const { breaks, fails } = afterBreak(attempt.breaks, broke, nowMs)
        attempt.breaks = breaks
        attempt.broke = { fails }
        if (form.kind === 'schema' && sendsSchema(format)) this.#schemas.broke(form.schemaJson, broke, nowMs)
      }
      const other = signal.reason === null ? server.otherFormat(target.model, prompt, format, reply) : null
      if (other !== null) {
        format = other
        continue
      }
      const kind = failureKind(reply)
      const isOverload = reply.timedOut || kind === 'overloaded'
      attempt.isBeyondProven = isOverload && limits.overloaded(account, begun, endedAtMs)
      // The target has responded, and the request is at fault.
      if (!isWaitedFor(kind)) {
        target.breaks.answered(jobId)
        return SUCCESS
      }
      return { kind: 'failure', retryAfterMs: boundedRetryAfterMs(reply), trouble: troubleOf(reply) }
    }
  }

  #record(attempt: RoutingAttempt, target: Target, reply: Reply, record: CallRecord): void {
    const { jobId } = attempt.request
    attempt.reply = reply
    attempt.target = target.name
    attempt.tokens = sumOfTokens(attempt.tokens, reply.tokens ?? NO_TOKENS)
    attempt.calls.push(record)
    const { status, ms, broke } = record
    const aborted = reply.kind === 'error' && reply.aborted
    const isTruncated = record.finish_reason === 'length'
    const { name: upstream } = target.upstream.server
    const event = { upstream, model: target.model, kind: reply.kind, status, aborted, isTruncated, ms }
    this.#listener.onCall?.(event)
    if (reply.kind !== 'error' || aborted) return
    const { code, connection, timedOut } = reply
    this.#listener.onFailedCall?.({ ...event, jobId, code, connection, timedOut, ...(broke && { broke }) })
  }
}

/**
 * Of the jobs that take turns, only one at a time calls the target. These are jobs whose next failure would be their last, and
 * jobs that may crash the target. If they called together, all of them could fail because of one.
 */
function takesTurns({ breaks, tries }: RoutingAttempt): boolean {
  return tries >= MAX_TRIES - 1 || isIsolated(breaks) || isCareful(breaks)
}

const SUCCESS: CallResult = { kind: 'success' }
const IGNORED: CallResult = { kind: 'ignored' }

function recordOf(
  target: Target,
  { prompt: { form } }: ModelRequest,
  sent: RequestFormat & Pick<CallRecord, 'at_ms' | 'ms' | 'cost'>,
  reply: Reply,
  broke: BrokenCall | null,
): CallRecord {
  const isTruncated = reply.kind !== 'refused' && reply.truncated === true
  return {
    target: target.name,
    kind: reply.kind === 'error' ? 'trouble' : reply.kind,
    status: reply.kind === 'answer' ? 200 : reply.status,
    ...sent,
    ...(isTruncated && { finish_reason: 'length' }),
    ...(broke && {
      broke: {
        in_progress: broke.event.inProgress,
        counts: broke.blame === 'counted' || broke.blame === 'certain',
        ...(form.kind === 'schema' && { schema: schemaFingerprint(form.schemaJson) }),
      },
    }),
  }
}
