/**
 * Chooses the model server for a request: tries the model's targets in order and skips those with an open circuit breaker.
 * After an error that another call may avoid (failure-kinds.ts), it tries the next target. If all have failed, it pauses and
 * tries all again, up to ROUNDS times. An answer, a refusal or any other error ends the request, because another call would
 * cost money and not change the result.
 *
 * Errors that are not the job's fault do not fail it: once its targets are unavailable to its account (target-health.ts), the
 * request ends with a `wait`, and the queue repeats it when a target responds. Without patience (`jobs.patience_seconds` is 0),
 * there is no `wait`: unavailable targets are called anyway, and the last error is the result.
 */
import type { Clock } from '../clock.ts'
import type { ModelSettings } from '../config/settings.ts'
import { pause, type StopSignal } from '../job/stop.ts'
import { FIRST_TARGET_ONLY_MS, isIsolated, NO_BREAKS } from './breaks.ts'
import { type CallListener, MAX_TRIES, type RoutingAttempt, TargetCaller } from './call-target.ts'
import { freeCalls } from './concurrency-limit.ts'
import { failureKind, troubleOf } from './failure-kinds.ts'
import type { FailureKind, ModelRequest, RequestWait, RoutedReply, Router, Trouble } from './model-server.ts'
import type { RateBook } from './rate.ts'
import { RatedCaller } from './rated-caller.ts'
import { NO_TOKENS, upstreamError } from './read-completion.ts'
import { boundedRetryAfterMs, roundPauseMs } from './retry-after.ts'
import {
  NO_LIMITS,
  type RoutedJob,
  type RouteLimits,
  type Routes,
  routeLimits,
  unavailability,
  type WaitingJobs,
} from './routes.ts'
import {
  type Candidates,
  createRoutingTable,
  type RoutedTier,
  type RoutingTable,
  ratesOf,
  type Target,
  type UpstreamOptions,
  type UpstreamState,
  upstreamStates,
} from './routing-table.ts'

/**
 * Each target may be tried this many times for one request. The pauses in between are about 0.5 and 2 s, or longer because of
 * Retry-After.
 */
export const ROUNDS = 3

export interface RouterOptions extends CallListener {
  readonly upstreams: ReadonlyMap<string, UpstreamOptions>
  readonly models: { readonly [name: string]: ModelSettings }
  readonly tiers: readonly RoutedTier[]
  readonly clock: Clock
  /** Returns a number from 0 up to but not including 1. */
  readonly random: () => number
  /** This is true if jobs wait for model servers (`jobs.patience_seconds`). */
  readonly isPatient?: boolean
  /** The router calls this with the reason when calls to a target no longer succeed, and with null when one succeeds again. */
  readonly onAvailability?: (target: Pick<Target, 'name'>, trouble: Trouble | null) => void
  /**
   * The node has this many slots; infinite if absent. A route gets no more jobs once its waiting jobs are at least as many as
   * the slots without waiting jobs, which keeps slots for other routes.
   */
  readonly slots?: number
  /** Returns where the state of a rate is kept, by the name of an upstream or a target; in memory if absent. */
  readonly bookOf?: (name: string) => RateBook
}

const LEAST_WEIGHT = 1
const NO_CANDIDATES: Candidates = { key: '', targets: [], waiting: new Set() }
const NOT_CALLED = upstreamError({ message: 'No model server was called.' })

export class ModelRouter implements Router, Routes {
  readonly #table: RoutingTable
  readonly #isPatient: boolean
  readonly #slots: number
  /** This is null if the limits have changed since they were last read. */
  #limits: RouteLimits | null = NO_LIMITS
  #onChange: () => void = () => {}
  readonly #caller: TargetCaller
  readonly #rated: RatedCaller
  readonly #clock: Clock
  readonly #random: () => number

  constructor(options: RouterOptions) {
    const { clock, random, isPatient = false } = options
    this.#isPatient = isPatient
    this.#slots = options.slots ?? Number.POSITIVE_INFINITY
    this.#clock = clock
    this.#random = random
    this.#table = createRoutingTable(options.upstreams, options.models, options.tiers, clock, {
      random,
      onChange: () => {
        // Without patience, jobs do not wait for model servers, so the queue must not delay them.
        if (!isPatient) return
        this.#limits = null
        this.#onChange()
      },
      onReport: (target, trouble) => options.onAvailability?.(target, trouble),
      ...(options.bookOf && { bookOf: options.bookOf }),
    })
    const rates = ratesOf(this.#table.targets)
    for (const rate of rates) {
      const most = Math.max(1, Math.floor(this.#slots / 2 / rates.size))
      rate.mostWaiting = Math.min(rate.mostWaiting, most)
    }
    const weightOf = (tier: string) => this.#table.weights.get(tier) ?? LEAST_WEIGHT
    this.#caller = new TargetCaller(clock, isPatient, options, weightOf)
    this.#rated = new RatedCaller(this.#caller, clock, weightOf)
  }

  async ask(request: ModelRequest, signal: StopSignal): Promise<RoutedReply> {
    const { key, targets, waiting } = this.#candidatesOf(request)
    const attempt: RoutingAttempt = {
      request,
      targets,
      signal,
      reply: NOT_CALLED,
      target: null,
      calls: [],
      tokens: NO_TOKENS,
      tries: request.tries,
      breaks: request.breaks ?? NO_BREAKS,
      breakPausesMs: 0,
      hasBegun: false,
      isBeyondProven: false,
      broke: null,
      permit: null,
      waiting,
    }
    if (targets.length === 0) {
      const message = `No model server is configured for ${request.model} and this tier.`
      return resultOf(attempt, { reply: upstreamError({ message }) })
    }
    const { account } = request
    /**
     * The value for a target shows why this request last failed there, and how many calls of the account had succeeded by then.
     */
    const failed = new Map<Target, { readonly trouble: Trouble; readonly successes: number }>()
    for (let round = 1; ; round++) {
      let failures = 0
      let countsAgainstJob = true
      let retryAfterMs = Number.POSITIVE_INFINITY
      for (const target of round === 1 ? targets : soonestFirst(targets, account)) {
        if (target !== targets[0] && this.#isKeptAtFirst(attempt)) continue
        if (attempt.breaks !== NO_BREAKS && !(await this.#caller.pauseAfterBreaks(target, attempt)))
          return stopped(attempt)
        const { rates } = target
        const called = await (rates === null
          ? this.#caller.call(target, attempt)
          : this.#rated.call(target, rates, attempt))
        if (called === 'circuit open') continue
        if (called === 'stopped') return stopped(attempt)
        if (called === 'leaving')
          return resultOf(attempt, { wait: { ...waitOf(attempt, key, false), isForRate: true } })
        const { reply } = attempt
        if (reply.kind !== 'error' || reply.aborted) return resultOf(attempt)
        const kind = failureKind(reply)
        if (kind === 'final') return resultOf(attempt)
        if (attempt.broke?.fails)
          return resultOf(attempt, { reply: { ...reply, message: crashMessage(attempt, reply.message) } })
        failures++
        countsAgainstJob &&=
          attempt.broke === null && !attempt.isBeyondProven && isOfJob(kind, target, attempt)
        retryAfterMs = Math.min(retryAfterMs, boundedRetryAfterMs(reply) ?? 0)
        const { successes } = failed.get(target) ?? { successes: target.health.successesOf(account) }
        failed.set(target, { trouble: troubleOf(reply), successes })
      }
      if (failures > 0 && countsAgainstJob) attempt.tries++
      if (attempt.tries >= MAX_TRIES) {
        for (const { health } of targets) health.forget(account, request.jobId)
        return resultOf(attempt)
      }
      if (round === ROUNDS) {
        for (const [{ health }, { trouble, successes }] of failed) health.giveUp(account, trouble, successes)
      }
      const areAllOpen = targets.every(({ health }) => health.isOpen(account))
      // Targets that are still available are tried again after a pause, so that a short failure costs only that pause.
      if (this.#isPatient && (areAllOpen || round === ROUNDS)) {
        return resultOf(attempt, { wait: waitOf(attempt, key, areAllOpen) })
      }
      if (round === ROUNDS) return resultOf(attempt)
      const leastMs = areAllOpen && failures > 0 ? retryAfterMs : 0
      // An answered check ends this pause before queued jobs start. Only if this job gets the trial will it show whether the
      // job crashes the target.
      const wakers = failures === 0 && this.#isKeptAtFirst(attempt) ? targets[0]?.health.wakers : undefined
      if (!(await pause(this.#clock, roundPauseMs(round, leastMs, this.#random()), signal, wakers))) {
        return stopped(attempt)
      }
    }
  }

  get limited(): RouteLimits['limited'] {
    return this.#currentLimits.limited
  }

  get limitedAccounts(): RouteLimits['limitedAccounts'] {
    return this.#currentLimits.limitedAccounts
  }

  room(route: string): number {
    const { targets, waiting } = this.#table.candidates.get(route) ?? NO_CANDIDATES
    // Without patience, jobs must fail soon if no server answers, even if the servers handle few calls at once.
    const mustFail = !this.#isPatient && targets.every(({ health }) => health.reported !== null)
    const target = targets.find(({ health }) => !health.all.isOpen) ?? targets[0]
    if (target === undefined) return Number.POSITIVE_INFINITY
    if (!mustFail && waiting.size > 0 && waiting.size >= this.#slots - this.#waiting) return 0
    const free = mustFail ? Number.POSITIVE_INFINITY : freeCalls(target.upstream.slots)
    return target.rates === null ? free : Math.min(free, ...target.rates.rates.map(({ room }) => room))
  }

  isRated(route: string): boolean {
    return this.#table.candidates.get(route)?.targets.some(({ rates }) => rates !== null) ?? false
  }

  watch(onChange: () => void, onRoom: () => void = () => {}): void {
    this.#onChange = onChange
    this.#caller.onRoom = onRoom
  }

  routeOf(job: RoutedJob): string {
    return this.#candidatesOf(job).key
  }

  waitingJobs(): readonly WaitingJobs[] {
    return [...this.#table.candidates.values()].map(({ key, waiting }) => ({ route: key, jobIds: waiting }))
  }

  state(): readonly UpstreamState[] {
    return upstreamStates(this.#table)
  }

  /** Ends all requests that wait for a rate, now and later, with a `wait`, so that other nodes run the jobs. */
  leaveRates(): void {
    for (const rate of ratesOf(this.#table.targets)) rate.close()
  }

  async close(): Promise<void> {
    for (const { health } of this.#table.targets) health.close()
    await Promise.all([...this.#table.upstreams.values()].map(({ server }) => server.close()))
  }

  /** Returns candidates without targets if the model is not configured. */
  #candidatesOf({ model, tier, inputTokens }: RoutedJob): Candidates {
    const route = this.#table.routes.get(model)
    if (route?.kind === 'fixed') return route.candidates
    for (const range of route?.byTier.get(tier) ?? []) {
      if (inputTokens <= range.upToTokens) return range.candidates
    }
    return NO_CANDIDATES
  }

  get #waiting(): number {
    return this.waitingJobs().reduce((sum, { jobIds }) => sum + jobIds.size, 0)
  }

  get #currentLimits(): RouteLimits {
    this.#limits ??= routeLimits(this.#table.candidates.values())
    return this.#limits
  }

  /** Returns whether the job may call only its first target for now, because it must not crash others. */
  #isKeptAtFirst({ breaks }: RoutingAttempt): boolean {
    return isIsolated(breaks) && this.#clock.nowMs() - breaks.lastMs < FIRST_TARGET_ONLY_MS
  }
}

/** If no target is available, the one that may be called soonest comes first. */
function soonestFirst(targets: readonly Target[], account: string): readonly Target[] {
  if (!targets.every(({ health }) => health.isOpen(account))) return targets
  return targets.toSorted((a, b) => a.health.untilCheckMs(account) - b.health.untilCheckMs(account))
}

function isOfJob(kind: FailureKind, { health }: Target, { request, tries }: RoutingAttempt): boolean {
  const { account, jobId } = request
  switch (kind) {
    case 'too large':
      return true
    case 'failing':
      if (health.succeededBetweenFailuresOf(account, jobId)) return true
      return health.isCallable(account) && health.failsAlone(account, jobId)
    case 'broken':
    case 'misconfigured':
      return tries === 0 || health.succeededBetweenFailuresOf(account, jobId)
    default:
      return false
  }
}

function waitOf(
  { request, targets, tries, breaks, breakPausesMs }: RoutingAttempt,
  route: string,
  areAllOpen: boolean,
): RequestWait {
  const { account } = request
  const { unavailableSinceMs, trouble } = unavailability(targets, account)
  return {
    route,
    tries,
    unavailableSinceMs: areAllOpen ? unavailableSinceMs : null,
    availableSinceMs: Math.max(...targets.map(({ health }) => health.availableSinceMs(account))),
    trouble,
    ...(breaks !== NO_BREAKS && { breaks }),
    ...(breakPausesMs > 0 && { breakPausesMs }),
  }
}

function resultOf(
  { reply, target, calls, tokens }: RoutingAttempt,
  rest: Partial<RoutedReply> = {},
): RoutedReply {
  return { reply, target, calls, tokens, ...rest }
}

function crashMessage({ breaks }: RoutingAttempt, message: string): string {
  return `${message} It broke during ${breaks.seen} calls for this job, the last time while no other call was in progress, so the job may be what crashes the model server.`
}

/** Returns the result of a stopped request. The message quotes the last error as a possible explanation. */
function stopped({ reply: last, calls, tokens }: RoutingAttempt): RoutedReply {
  const failed = last.kind === 'error' && calls.length > 0
  const before = failed ? ` The last error before that: ${last.message}` : ''
  const message = `The execution was stopped before a model answered.${before}`
  const reply = upstreamError({ aborted: true, message, status: failed ? last.status : null })
  return { reply, target: null, calls, tokens }
}
