/**
 * Chooses the model server that answers a request: tries the model's targets in order, skips those whose circuit breaker is
 * open, and if all have failed, pauses and tries again, up to ROUNDS times in total.
 *
 * After an error that another call may not get (failure-kinds.ts), the next target is tried. An answer, a refusal or any other
 * error ends the request, because another call would cost money and not change the result.
 *
 * A request does not fail because of errors that are not its job's fault: once its targets are unavailable
 * (circuit-breaker.ts), it ends with a `wait`, and the queue repeats it when one of them responds. Without patience, there is
 * no `wait`: the targets are called although they are unavailable, and the last error is the result.
 */
import type { Clock } from '../clock.ts'
import type { ModelSettings } from '../config/settings.ts'
import type { StopSignal } from '../job/stop.ts'
import type { FairSlots } from '../sharing/fair-slots.ts'
import type { CallResult, Permit } from './circuit-breaker.ts'
import { failureKind, isWaitedFor, troubleOf } from './failure-kinds.ts'
import type {
  CallRecord,
  ConnectionFault,
  FailureKind,
  ModelRequest,
  Reply,
  RequestFormat,
  RequestWait,
  RoutedReply,
  Router,
  TokenCount,
  Trouble,
} from './model-server.ts'
import { pause } from './pause.ts'
import { upstreamError } from './read-completion.ts'
import { boundedRetryAfterMs, roundPauseMs } from './retry-after.ts'
import { latest, RouteLimits } from './route-limits.ts'
import type { RoutedJob, RouteLimit, Routes } from './routes.ts'
import {
  type Candidates,
  createRoutingTable,
  type RoutedTier,
  type RoutingTable,
  type Target,
  type UpstreamOptions,
} from './targets.ts'
import { UpstreamChecks } from './upstream-checks.ts'
import { type UpstreamState, upstreamStates } from './upstream-state.ts'

/** How many times each target may be called for one request, with pauses of about 0.5 and 2 s between. */
export const ROUNDS = 3
/** A job fails after this many tries that count against it. */
export const MAX_TRIES = 3

/** One call to an upstream, for metrics and traces. It contains no text of the conversation. */
export interface CallEvent {
  readonly upstream: string
  readonly model: string
  readonly kind: Reply['kind']
  readonly status: number | null
  /** Ended by our own signal: neither a success nor a failure of the upstream. */
  readonly aborted: boolean
  /** Whether the answer was cut off at a length limit. */
  readonly isTruncated: boolean
  readonly ms: number
}

/** A call that ended in an error, for the log. It contains no text of the server, which may quote the conversation. */
export interface FailedCall extends CallEvent {
  readonly code: string | null
  readonly connection: ConnectionFault | null
  readonly timedOut: boolean
}

export interface RouterOptions {
  readonly upstreams: ReadonlyMap<string, UpstreamOptions>
  readonly models: { readonly [name: string]: ModelSettings }
  readonly tiers: readonly RoutedTier[]
  readonly clock: Clock
  /** From 0 up to but not including 1. */
  readonly random: () => number
  /** Whether jobs wait for model servers (`jobs.patience_seconds`); false if absent. */
  readonly isPatient?: boolean
  /** Called with the reason when a target becomes unavailable, and with null when it responds again. */
  readonly onAvailability?: (target: Pick<Target, 'name'>, trouble: Trouble | null) => void
  /** Called after each call to an upstream. */
  readonly onCall?: (call: CallEvent) => void
  /** Called after `onCall` for each call that ended in an error, except by our own signal. */
  readonly onFailedCall?: (call: FailedCall) => void
}

/** The result of a request so far: the last reply with its target, and the usage of all calls. */
interface RoutingAttempt extends RoutedReply {
  reply: Reply
  target: string | null
  readonly calls: CallRecord[]
  tokens: TokenCount
  /** Whether the last call failed because too many were in progress. */
  isBeyondProven?: boolean
}

/** For a tier that no longer exists. */
const LEAST_WEIGHT = 1
const NO_CANDIDATES: Candidates = { key: '', targets: [] }
const NO_TROUBLE: Trouble = { kind: 'broken', status: null, message: '' }
const NO_TOKENS: TokenCount = { input: 0, output: 0 }
const NOT_CALLED = upstreamError({ message: 'No model server was called.' })

export class ModelRouter implements Router, Routes {
  readonly #table: RoutingTable
  readonly #isPatient: boolean
  readonly #limits = new RouteLimits()
  readonly #checks: UpstreamChecks
  readonly #clock: Clock
  readonly #random: () => number
  readonly #onCall: ((call: CallEvent) => void) | undefined
  readonly #onFailedCall: ((call: FailedCall) => void) | undefined

  constructor(options: RouterOptions) {
    const { clock, random, isPatient = false } = options
    const reported = new Set<Target>()
    const onChange = (target: Target) => {
      const { unavailableSinceMs, trouble } = target.health
      const isUnavailable = unavailableSinceMs !== null
      if (isUnavailable !== reported.has(target)) {
        if (isUnavailable) reported.add(target)
        else reported.delete(target)
        options.onAvailability?.(target, isUnavailable ? trouble : null)
      }
      this.#checks.changed(target)
      // The queue must not hold back jobs that do not wait.
      if (isPatient) this.#limits.update(this.#table.candidates.values())
    }
    this.#isPatient = isPatient
    this.#checks = new UpstreamChecks(clock)
    const health = { random, onChange }
    this.#table = createRoutingTable(options.upstreams, options.models, options.tiers, clock, health)
    this.#clock = clock
    this.#random = options.random
    this.#onCall = options.onCall
    this.#onFailedCall = options.onFailedCall
  }

  async ask(request: ModelRequest, signal: StopSignal): Promise<RoutedReply> {
    const attempt: RoutingAttempt = { reply: NOT_CALLED, target: null, calls: [], tokens: NO_TOKENS }
    const { key, targets } = this.#candidatesOf(request)
    if (targets.length === 0) {
      const message = `No model server is configured for ${request.model} and this tier.`
      return { ...attempt, reply: upstreamError({ message }) }
    }
    let { tries } = request
    /** The success counts of the targets when this request first failed there. */
    let successes: Map<Target, number> | null = null
    for (let round = 1; ; round++) {
      let failures = 0
      let countsAgainstJob = true
      let retryAfterMs = Number.POSITIVE_INFINITY
      for (const target of round === 1 ? targets : soonestFirst(targets)) {
        const called =
          tries < MAX_TRIES - 1
            ? await this.#call(target, targets, request, attempt, signal)
            : await this.#callAlone(target, targets, request, attempt, signal)
        if (called === 'circuit open') continue
        if (called === 'stopped') return stopped(attempt)
        const { reply } = attempt
        if (reply.kind !== 'error' || reply.aborted) return attempt
        const kind = failureKind(reply)
        if (kind === 'final') return attempt
        failures++
        countsAgainstJob &&= !attempt.isBeyondProven && isOfJob(kind, target, request.jobId, tries)
        retryAfterMs = Math.min(retryAfterMs, boundedRetryAfterMs(reply) ?? 0)
        successes ??= new Map()
        if (!successes.has(target)) successes.set(target, target.health.successes)
      }
      if (failures > 0 && countsAgainstJob) tries++
      if (tries >= MAX_TRIES) return attempt
      if (round === ROUNDS && attempt.reply.kind === 'error') {
        const trouble = troubleOf(attempt.reply)
        for (const [target, before] of successes ?? []) target.health.giveUp(trouble, before)
      }
      const areAllOpen = targets.every(isOpen)
      // Targets that are only suspected are tried again after a pause, so that a blip costs the job only that pause.
      if (this.#isPatient && (areAllOpen || round === ROUNDS)) {
        return { ...attempt, wait: { route: key, tries, ...unavailability(targets, areAllOpen) } }
      }
      if (round === ROUNDS) return attempt
      const leastMs = areAllOpen && failures > 0 ? retryAfterMs : 0
      if (!(await pause(this.#clock, roundPauseMs(round, leastMs, this.#random()), signal))) {
        return stopped(attempt)
      }
    }
  }

  /** Jobs whose next failure would be their last call a target one at a time, so that only the one that is to blame fails. */
  async #callAlone(
    target: Target,
    targets: readonly Target[],
    request: ModelRequest,
    attempt: RoutingAttempt,
    signal: StopSignal,
  ): Promise<'called' | 'circuit open' | 'stopped'> {
    const { account } = request
    if (!(await target.lastTries.acquire(account, LEAST_WEIGHT, signal))) return 'stopped'
    try {
      return await this.#call(target, targets, request, attempt, signal)
    } finally {
      target.lastTries.release(account)
    }
  }

  get limited(): ReadonlyMap<string, RouteLimit> {
    return this.#limits.limited
  }

  watch(onChange: () => void): void {
    this.#limits.watch(onChange)
  }

  routeOf(job: RoutedJob): string {
    return this.#candidatesOf(job).key
  }

  /** The load and the health of each upstream, for the health view. */
  state(): readonly UpstreamState[] {
    return upstreamStates(this.#table)
  }

  async close(): Promise<void> {
    this.#checks.close()
    await Promise.all([...this.#table.upstreams.values()].map(({ server }) => server.close()))
  }

  /** The request's targets in the order to try them; empty if the model is not configured (any longer). */
  #candidatesOf({ model, tier, inputTokens }: RoutedJob): Candidates {
    const route = this.#table.routes.get(model)
    if (route?.kind === 'fixed') return route.candidates
    for (const range of route?.byTier.get(tier) ?? []) {
      if (inputTokens <= range.upToTokens) return range.candidates
    }
    return NO_CANDIDATES
  }

  /**
   * Makes one call as soon as the upstream has a free slot, if the target's circuit breaker permits it. The next free slot
   * goes to the waiting account that holds fewest, by the weight of its tier. @param targets all targets of the request
   */
  async #call(
    target: Target,
    targets: readonly Target[],
    request: ModelRequest,
    attempt: RoutingAttempt,
    signal: StopSignal,
  ): Promise<'called' | 'circuit open' | 'stopped'> {
    if (signal.reason !== null) return 'stopped'
    const { health, upstream } = target
    const { account, tier, prompt } = request
    const { server, limit, slots } = upstream
    if (!slots.tryAcquire(account)) {
      // A request that has another target must not wait for a slot at a failing one.
      if (health.isOpen && this.#isSkipped(targets)) return 'circuit open'
      const weight = this.#table.weights.get(tier) ?? LEAST_WEIGHT
      if (!(await this.#acquireSlot(slots, account, weight, signal))) return 'stopped'
    }
    let permit: Permit | null = null
    let result: CallResult = 'ignored'
    let retryAfterMs: number | null = null
    let trouble = NO_TROUBLE
    try {
      // Only now, because the breaker may have opened while the request waited for a slot.
      permit = health.acquire()
      if (permit === null && this.#isSkipped(targets)) return 'circuit open'
      permit ??= 'normal'
      const begun = limit.changes
      let reply: Reply
      // Repeated in another format as long as the server rejects the format.
      let format: RequestFormat | null = server.requestFormat(target.model, prompt)
      do {
        const [startedAtMs, atMs] = [this.#clock.steadyMs(), this.#clock.nowMs()]
        reply = await server.ask(target.model, prompt, format, signal)
        this.#record(attempt, target, format, reply, atMs, this.#clock.steadyMs() - startedAtMs)
        format =
          reply.kind === 'error' && signal.reason === null
            ? server.otherFormat(target.model, prompt, format, reply)
            : null
      } while (format !== null)
      if (reply.kind !== 'error') {
        result = 'success'
        limit.succeeded(begun, slots.held.total >= limit.limit)
      } else if (!reply.aborted) {
        const isOverload = reply.timedOut || failureKind(reply) === 'overloaded'
        attempt.isBeyondProven = isOverload && limit.overloaded(begun)
        // After any other 4xx the request is at fault, and the target is healthy.
        result = isWaitedFor(failureKind(reply)) ? 'failure' : 'success'
        retryAfterMs = boundedRetryAfterMs(reply)
        trouble = troubleOf(reply)
      }
      return 'called'
    } finally {
      if (permit !== null) health.release(permit, result, retryAfterMs, request.jobId, trouble)
      slots.release(account)
    }
  }

  /**
   * Whether a target with an open circuit breaker must not be called. A job that does not wait calls it nevertheless if no other
   * target is better, because a call that may fail is better than a failure without a call.
   */
  #isSkipped(targets: readonly Target[]): boolean {
    return this.#isPatient || !targets.every(isOpen)
  }

  /** Waiting behind other jobs is not part of a run, so the deadline of a job that may wait is paused. */
  async #acquireSlot(
    slots: FairSlots,
    account: string,
    weight: number,
    signal: StopSignal,
  ): Promise<boolean> {
    if (this.#isPatient) signal.pause()
    const acquired = await slots.acquire(account, weight, signal)
    if (this.#isPatient) signal.resume()
    return acquired
  }

  #record(
    attempt: RoutingAttempt,
    target: Target,
    format: RequestFormat,
    reply: Reply,
    atMs: number,
    ms: number,
  ): void {
    const { server } = target.upstream
    const status = reply.kind === 'answer' ? 200 : reply.status
    const isTruncated = reply.kind !== 'refused' && reply.truncated === true
    const { input, output } = reply.tokens ?? NO_TOKENS
    attempt.reply = reply
    attempt.target = target.name
    attempt.tokens = { input: attempt.tokens.input + input, output: attempt.tokens.output + output }
    attempt.calls.push({
      target: target.name,
      kind: reply.kind === 'error' ? 'trouble' : reply.kind,
      status,
      at_ms: atMs,
      ms,
      ...format,
      ...(isTruncated && { finish_reason: 'length' }),
    })
    const aborted = reply.kind === 'error' && reply.aborted
    const { name: upstream } = server
    const event = { upstream, model: target.model, kind: reply.kind, status, aborted, isTruncated, ms }
    this.#onCall?.(event)
    if (reply.kind !== 'error' || aborted) return
    const { code, connection, timedOut } = reply
    this.#onFailedCall?.({ ...event, code, connection, timedOut })
  }
}

function isOpen({ health }: Target): boolean {
  return health.isOpen
}

/** The targets in order; if none is available, first those that may be called soonest, for example after Retry-After. */
function soonestFirst(targets: readonly Target[]): readonly Target[] {
  if (!targets.every(isOpen)) return targets
  return targets.toSorted((a, b) => a.health.untilCheckMs - b.health.untilCheckMs)
}

/** Whether a failure counts against the job, given the number of tries that already do. */
function isOfJob(kind: FailureKind, { health }: Target, jobId: string, tries: number): boolean {
  switch (kind) {
    case 'too large':
      return true
    case 'failing':
      return health.phase === 'available' || health.phase === 'recovering'
    case 'broken':
    case 'misconfigured':
      return tries === 0 || health.succeededBetweenFailuresOf(jobId)
    default:
      return false
  }
}

function unavailability(
  targets: readonly Target[],
  areAllOpen: boolean,
): Pick<RequestWait, 'unavailableSinceMs' | 'availableSinceMs' | 'trouble'> {
  const trouble = targets.findLast(({ health }) => health.trouble !== null)?.health.trouble ?? null
  const since = targets.map(({ health }) => health.unavailableSinceMs)
  const availableSinceMs = Math.max(...targets.map(({ health }) => health.availableSinceMs))
  return { unavailableSinceMs: areAllOpen ? latest(since) : null, availableSinceMs, trouble }
}

/** The result when our own signal ends the request between two calls. It quotes the last error, which may explain it. */
function stopped({ reply: last, calls, tokens }: RoutingAttempt): RoutedReply {
  const failed = last.kind === 'error' && calls.length > 0
  const before = failed ? ` The last error before that: ${last.message}` : ''
  const message = `The execution was stopped before a model answered.${before}`
  const reply = upstreamError({ aborted: true, message, status: failed ? last.status : null })
  return { reply, target: null, calls, tokens }
}
