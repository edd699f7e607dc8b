/**
 * Chooses the model server that answers a request: tries the model's targets in order, skips those whose circuit breaker
 * is open, and when all have failed waits and tries again, ROUNDS times in all.
 *
 * After connection errors, 408, 409, 429 and 5xx the next target is tried. An answer, a refusal or any other error ends
 * the request: another call would cost money and change nothing.
 */
import type { Clock } from '../clock.ts'
import type { ModelSettings } from '../config/settings.ts'
import type { StopSignal } from '../job/stop.ts'
import type { CallResult, Permit } from './circuit-breaker.ts'
import type {
  CallRecord,
  ConnectionFault,
  ModelRequest,
  Prompt,
  Reply,
  RequestFormat,
  RoutedReply,
  Router,
  TokenCount,
  UpstreamError,
} from './model-server.ts'
import { pause } from './pause.ts'
import { upstreamError } from './read-completion.ts'
import {
  createRoutingTable,
  type RoutedTier,
  type RoutingTable,
  type Target,
  type UpstreamOptions,
} from './targets.ts'

/** How many times each target may be called for one request. */
export const ROUNDS = 3
/** The pause after the first round, before jitter; BACKOFF_FACTOR times as long after the second. */
export const FIRST_BACKOFF_MS = 500
export const BACKOFF_FACTOR = 4
/** A pause is shortened or extended by up to this fraction, so that jobs that failed together do not retry together. */
export const JITTER = 0.25
/** No request waits longer than this for a Retry-After: a run has a deadline, and the last try may succeed. */
export const MAX_RETRY_AFTER_MS = 60_000

/** One call to an upstream, for metrics and traces. It contains no text of the conversation. */
export interface CallEvent {
  readonly upstream: string
  readonly model: string
  readonly kind: Reply['kind']
  readonly status: number | null
  /** Ended by our own signal: neither a success nor a failure of the upstream. */
  readonly aborted: boolean
  readonly ms: number
}

/** A call that ended in an error, for the log. It contains no text of the server, which may quote the conversation. */
export interface FailedCall extends CallEvent {
  readonly code: string | null
  readonly connection: ConnectionFault | null
  readonly timedOut: boolean
}

/** An upstream as the health view shows it. */
export interface UpstreamState {
  readonly name: string
  readonly running: number
  readonly waiting: number
  readonly maxConcurrency: number
  /** When the first of its circuit breakers becomes half-open (wall clock); null unless all of them are open. */
  readonly openUntilMs: number | null
  readonly targets: readonly TargetState[]
}

export interface TargetState {
  readonly model: string
  readonly consecutiveFailures: number
  /** Until when its circuit breaker is open (wall clock); null if it is closed or half-open. */
  readonly openUntilMs: number | null
}

export interface RouterOptions {
  readonly upstreams: ReadonlyMap<string, UpstreamOptions>
  readonly models: { readonly [name: string]: ModelSettings }
  readonly tiers: readonly RoutedTier[]
  readonly clock: Clock
  /** From 0 up to but not including 1. */
  readonly random: () => number
  /** Called after each call to an upstream. */
  readonly onCall?: (call: CallEvent) => void
  /** Called after `onCall` for each call that ended in an error, except by our own signal. */
  readonly onFailedCall?: (call: FailedCall) => void
}

/** The result of a request so far: the last reply with its target, and what all calls used. */
interface RoutingAttempt extends RoutedReply {
  reply: Reply
  target: string | null
  readonly calls: CallRecord[]
  tokens: TokenCount
}

/** Of a tier that no longer exists. */
const LEAST_WEIGHT = 1
const NO_TARGETS: readonly Target[] = []
const NO_TOKENS: TokenCount = { input: 0, output: 0 }
const NOT_CALLED = upstreamError({ message: 'No model server was called.' })

export class ModelRouter implements Router {
  readonly #table: RoutingTable
  readonly #clock: Clock
  readonly #random: () => number
  readonly #onCall: ((call: CallEvent) => void) | undefined
  readonly #onFailedCall: ((call: FailedCall) => void) | undefined

  constructor(options: RouterOptions) {
    this.#table = createRoutingTable(options.upstreams, options.models, options.tiers, options.clock)
    this.#clock = options.clock
    this.#random = options.random
    this.#onCall = options.onCall
    this.#onFailedCall = options.onFailedCall
  }

  async ask(request: ModelRequest, signal: StopSignal): Promise<RoutedReply> {
    const attempt: RoutingAttempt = { reply: NOT_CALLED, target: null, calls: [], tokens: NO_TOKENS }
    const targets = this.#targetsFor(request)
    if (targets.length === 0) {
      const message = `No model server is configured for ${request.model} and this tier.`
      return { ...attempt, reply: upstreamError({ message }) }
    }
    for (let round = 1; ; round++) {
      let failures = 0
      // The next round may begin when the first target is available; the breakers of the others are open until they are.
      let retryAfterMs = Number.POSITIVE_INFINITY
      for (const forced of [false, true]) {
        if (failures > 0) break
        for (const target of targets) {
          const called = await this.#call(target, request, attempt, signal, forced)
          if (called === 'circuit open') continue
          if (called === 'stopped') return stopped(attempt)
          const { reply } = attempt
          if (reply.kind !== 'error' || !reply.retryable || reply.aborted) return attempt
          failures++
          retryAfterMs = Math.min(retryAfterMs, boundedRetryAfterMs(reply) ?? 0)
        }
      }
      if (round === ROUNDS) return attempt
      if (!(await pause(this.#clock, this.#pauseMs(round, retryAfterMs), signal))) return stopped(attempt)
    }
  }

  /** The load and the health of each upstream, for the health view. */
  state(): readonly UpstreamState[] {
    return [...this.#table.upstreams].map(([name, upstream]) => {
      const targets = this.#table.targets
        .filter((target) => target.upstream === upstream)
        .map(({ model, breaker: { consecutiveFailures, openUntilMs } }) => ({
          model,
          consecutiveFailures,
          openUntilMs,
        }))
      return {
        name,
        running: upstream.slots.held.total,
        waiting: upstream.slots.waiting.total,
        maxConcurrency: upstream.slots.limit,
        openUntilMs: earliestIfAll(targets.map((target) => target.openUntilMs)),
        targets,
      }
    })
  }

  async close(): Promise<void> {
    await Promise.all([...this.#table.upstreams.values()].map(({ server }) => server.close()))
  }

  /** The request's targets in the order to try them; none if the model is not configured, or no longer. */
  #targetsFor({ model, tier, inputTokens }: ModelRequest): readonly Target[] {
    const route = this.#table.routes.get(model)
    if (route?.kind === 'fixed') return route.targets
    for (const range of route?.byTier.get(tier) ?? []) {
      if (inputTokens <= range.upToTokens) return range.targets
    }
    return NO_TARGETS
  }

  /**
   * Makes one call as soon as the upstream has a free slot, if the target's circuit breaker permits it. The next free slot
   * goes to the waiting account that holds fewest, by the weight of its tier.
   */
  async #call(
    target: Target,
    request: ModelRequest,
    attempt: RoutingAttempt,
    signal: StopSignal,
    forced: boolean,
  ): Promise<'called' | 'circuit open' | 'stopped'> {
    if (signal.reason !== null) return 'stopped'
    const { breaker, upstream } = target
    const { account, tier } = request
    if (!upstream.slots.tryAcquire(account)) {
      // A request that has another target must not wait for a slot at one that fails.
      if (!forced && breaker.isOpen) return 'circuit open'
      const weight = this.#table.weights.get(tier) ?? LEAST_WEIGHT
      if (!(await upstream.slots.acquire(account, weight, signal))) return 'stopped'
    }
    let permit: Permit | null = null
    let result: CallResult = 'ignored'
    let retryAfterMs: number | null = null
    try {
      // Only now, because the breaker may have opened while the request waited for a slot.
      permit = breaker.acquire() ?? (forced ? 'forced' : null)
      if (permit === null) return 'circuit open'
      const reply = await this.#ask(target, request.prompt, attempt, signal)
      if (reply.kind !== 'error') result = 'success'
      else if (!reply.aborted) {
        // After any other 4xx the request is at fault, and the target is healthy.
        result = reply.retryable ? 'failure' : 'success'
        retryAfterMs = boundedRetryAfterMs(reply)
      }
      return 'called'
    } finally {
      if (permit !== null) breaker.release(permit, result, retryAfterMs)
      upstream.slots.release(account)
    }
  }

  /** Sends the prompt, again in another format as long as the format is what the server rejects. Returns the last reply. */
  async #ask(target: Target, prompt: Prompt, attempt: RoutingAttempt, signal: StopSignal): Promise<Reply> {
    const { server } = target.upstream
    for (let format: RequestFormat | null = server.requestFormat(target.model, prompt); ; ) {
      const [startedAtMs, atMs] = [this.#clock.steadyMs(), this.#clock.nowMs()]
      const reply = await server.ask(target.model, prompt, format, signal)
      this.#record(attempt, target, format, reply, atMs, this.#clock.steadyMs() - startedAtMs)
      if (reply.kind !== 'error' || signal.reason !== null) return reply
      format = server.otherFormat(target.model, prompt, format, reply)
      if (format === null) return reply
    }
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
    })
    const aborted = reply.kind === 'error' && reply.aborted
    const event = { upstream: server.name, model: target.model, kind: reply.kind, status, aborted, ms }
    this.#onCall?.(event)
    if (reply.kind !== 'error' || aborted) return
    const { code, connection, timedOut } = reply
    this.#onFailedCall?.({ ...event, code, connection, timedOut })
  }

  /** Exponential backoff with jitter, and never less than Retry-After asks for. */
  #pauseMs(round: number, retryAfterMs: number): number {
    const backoffMs = FIRST_BACKOFF_MS * BACKOFF_FACTOR ** (round - 1)
    const jitter = this.#random()
    return Math.max(backoffMs * (1 - JITTER + 2 * JITTER * jitter), retryAfterMs * (1 + JITTER * jitter))
  }
}

/** The result when our own signal ends the request between two calls. It quotes the last error, which may explain it. */
function stopped({ reply: last, calls, tokens }: RoutingAttempt): RoutedReply {
  const failed = last.kind === 'error' && calls.length > 0
  const before = failed ? ` The last error before that: ${last.message}` : ''
  const message = `The request was stopped before a model answered.${before}`
  const reply = upstreamError({ aborted: true, message, status: failed ? last.status : null })
  return { reply, target: null, calls, tokens }
}

function boundedRetryAfterMs({ retryAfterMs }: UpstreamError): number | null {
  return retryAfterMs === null ? null : Math.min(retryAfterMs, MAX_RETRY_AFTER_MS)
}

function earliestIfAll(times: readonly (number | null)[]): number | null {
  let earliest: number | null = null
  for (const time of times) {
    if (time === null) return null
    earliest = Math.min(earliest ?? time, time)
  }
  return earliest
}
