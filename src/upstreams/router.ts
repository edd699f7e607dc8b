/**
 * Chooses who answers: tries a model's targets in order, skips those that keep failing, and when all have been tried
 * waits and tries again, ROUNDS times in all.
 *
 * Connection errors, 408, 409, 429 and 5xx move on to the next target. An answer, a refusal and any other trouble end the
 * question: asking again would be paid for and change nothing.
 */
import type { Clock } from '../clock.ts'
import type { ModelSettings } from '../config/settings.ts'
import type { StopSignal } from '../job/stop.ts'
import type { CallResult, Permit } from './circuit-breaker.ts'
import type {
  AnswerForm,
  CallRecord,
  Question,
  Reply,
  Routed,
  Router,
  UpstreamError,
} from './model-server.ts'
import { pause } from './pause.ts'
import { upstreamError } from './read-completion.ts'
import { type Target, Targets, type UpstreamOptions } from './targets.ts'

/** How often each target may be asked for one question. */
export const ROUNDS = 3
/** The pause after the first round, before jitter; four times as long after the second. */
export const FIRST_BACKOFF_MS = 500
export const BACKOFF_FACTOR = 4
/** A pause is up to this part shorter or longer, so that jobs that failed together do not come back together. */
export const JITTER = 0.25
/** Nobody waits longer than this for a Retry-After: a run has a deadline, and a last try may succeed. */
export const LONGEST_RETRY_AFTER_MS = 60_000

/** One call to an upstream, for metrics and traces. It holds no text of the conversation. */
export interface CallEvent {
  readonly upstream: string
  readonly model: string
  readonly kind: Reply['kind']
  readonly status: number | null
  /** Ended by our own signal: neither a success nor a failure of the upstream. */
  readonly aborted: boolean
  readonly ms: number
}

/** An upstream as the health view shows it. */
export interface UpstreamState {
  readonly name: string
  readonly running: number
  readonly waiting: number
  readonly maxConcurrency: number
  /** When the first of its targets is tried again (wall clock); null unless all of them are skipped. */
  readonly skippedUntilMs: number | null
  readonly targets: readonly TargetState[]
}

export interface TargetState {
  readonly model: string
  readonly failuresInRow: number
  /** Until when it is skipped (wall clock); null when it is in use. */
  readonly skippedUntilMs: number | null
}

export interface RouterOptions {
  readonly upstreams: ReadonlyMap<string, UpstreamOptions>
  readonly models: { readonly [name: string]: ModelSettings }
  readonly clock: Clock
  /** From 0 up to but not including 1. */
  readonly random: () => number
  /** Called after each call to an upstream. */
  readonly onCall?: (call: CallEvent) => void
}

/** What has come of a question so far. */
class Course {
  readonly calls: CallRecord[] = []
  readonly signal: StopSignal
  input = 0
  output = 0
  /** The last trouble worth another try, and who gave it. */
  last: UpstreamError | null = null
  lastTarget: string | null = null
  /** How many targets were tried in this round, and how soon the first of them is willing again. */
  tried = 0
  #waitMs = Number.POSITIVE_INFINITY

  constructor(signal: StopSignal) {
    this.signal = signal
  }

  routed(reply: Reply, target: string | null): Routed {
    return { reply, target, calls: this.calls, tokens: { input: this.input, output: this.output } }
  }

  get waitMs(): number {
    return Number.isFinite(this.#waitMs) ? this.#waitMs : 0
  }

  beginRound(): void {
    this.tried = 0
    this.#waitMs = Number.POSITIVE_INFINITY
  }

  failed(reply: UpstreamError, target: string): void {
    this.tried++
    this.last = reply
    this.lastTarget = target
    // The next round may begin when the first of them is willing; the others are skipped until they are.
    this.#waitMs = Math.min(this.#waitMs, boundedWait(reply.retryAfterMs) ?? 0)
  }

  aborted(): Routed {
    const before = this.last === null ? '' : ` The last try before: ${this.last.message}`
    const message = `The question was ended before a model answered.${before}`
    return this.routed(upstreamError({ aborted: true, message, status: this.last?.status ?? null }), null)
  }
}

export class ModelRouter implements Router {
  readonly #targets: Targets
  readonly #clock: Clock
  readonly #random: () => number
  readonly #onCall: ((call: CallEvent) => void) | undefined

  constructor(options: RouterOptions) {
    this.#targets = new Targets(options.upstreams, options.models, options.clock)
    this.#clock = options.clock
    this.#random = options.random
    this.#onCall = options.onCall
  }

  async ask(question: Question, signal: StopSignal): Promise<Routed> {
    const course = new Course(signal)
    const targets = this.#targets.of(question)
    if (targets.length === 0) {
      return course.routed(
        upstreamError({ message: `No model server is configured for ${question.model} and this tier.` }),
        null,
      )
    }
    for (let round = 1; ; round++) {
      course.beginRound()
      for (const forced of [false, true]) {
        if (course.tried > 0) break
        for (const target of targets) {
          if (!forced && target.breaker.skips()) continue
          const reply = await this.#tryOne(target, question, course, forced)
          if (reply === 'skipped') continue
          if (reply === 'aborted') return course.aborted()
          if (!isWorthAnotherTry(reply)) return course.routed(reply, target.name)
          course.failed(reply, target.name)
        }
      }
      if (round === ROUNDS && course.last !== null) return course.routed(course.last, course.lastTarget)
      if (!(await pause(this.#clock, this.#backoffMs(round, course.waitMs), signal))) return course.aborted()
    }
  }

  /** How busy and how healthy each upstream is, for the health view. */
  state(): readonly UpstreamState[] {
    return [...this.#targets.upstreams].map(([name, upstream]) => {
      const targets = [...this.#targets.all.values()]
        .filter((target) => target.upstream === upstream)
        .map(({ model, breaker }) => ({
          model,
          failuresInRow: breaker.failuresInRow,
          skippedUntilMs: breaker.skippedUntilMs,
        }))
      return {
        name,
        running: upstream.gate.inside,
        waiting: upstream.gate.waiting,
        maxConcurrency: upstream.gate.limit,
        skippedUntilMs: earliestIfAll(targets.map((target) => target.skippedUntilMs)),
        targets,
      }
    })
  }

  async close(): Promise<void> {
    await Promise.all([...this.#targets.upstreams.values()].map(({ server }) => server.close()))
  }

  /** One call, in its turn at the upstream's gate. */
  async #tryOne(
    target: Target,
    question: Question,
    course: Course,
    forced: boolean,
  ): Promise<Reply | 'skipped' | 'aborted'> {
    const { gate, server } = target.upstream
    const entered = gate.enter(course.signal)
    if (entered !== true && !(await entered)) return 'aborted'
    let pass: Permit | null = null
    let fared: CallResult = 'undecided'
    let waitMs: number | null = null
    try {
      // What it was when we queued says little of what it is now.
      pass = target.breaker.admit() ?? (forced ? 'forced' : null)
      if (pass === null) return 'skipped'
      const [startedAt, atMs] = [this.#clock.steadyMs(), this.#clock.nowMs()]
      const reply = await server.ask(target.model, question.prompt, course.signal)
      fared = faredWith(reply)
      if (reply.kind === 'trouble') waitMs = boundedWait(reply.retryAfterMs)
      const ms = this.#clock.steadyMs() - startedAt
      this.#record(course, target, question.prompt.form, reply, atMs, ms)
      return reply
    } finally {
      if (pass !== null) target.breaker.handBack(pass, fared, waitMs)
      gate.leave()
    }
  }

  #record(course: Course, target: Target, form: AnswerForm, reply: Reply, atMs: number, ms: number): void {
    const status = reply.kind === 'answer' ? 200 : reply.status
    const manner = target.upstream.server.mannerFor(form)
    course.calls.push({ target: target.name, kind: reply.kind, status, at_ms: atMs, ms, ...manner })
    course.input += reply.tokens?.input ?? 0
    course.output += reply.tokens?.output ?? 0
    this.#onCall?.({
      upstream: target.upstream.server.name,
      model: target.model,
      kind: reply.kind,
      status,
      aborted: reply.kind === 'trouble' && reply.aborted,
      ms,
    })
  }

  /** Exponential with jitter, and never less than what was asked for. */
  #backoffMs(round: number, askedMs: number): number {
    const backoff = FIRST_BACKOFF_MS * BACKOFF_FACTOR ** (round - 1)
    const jitter = this.#random()
    return Math.max(backoff * (1 - JITTER + 2 * JITTER * jitter), askedMs * (1 + JITTER * jitter))
  }
}

function isWorthAnotherTry(reply: Reply): reply is UpstreamError {
  return reply.kind === 'trouble' && reply.retryable && !reply.aborted
}

/** A refusal or a plain 4xx is our question's fault: a target that gives one is alive and well. */
function faredWith(reply: Reply): CallResult {
  if (reply.kind !== 'trouble') return 'well'
  if (reply.aborted) return 'undecided'
  return reply.retryable ? 'badly' : 'well'
}

function boundedWait(retryAfterMs: number | null): number | null {
  return retryAfterMs === null ? null : Math.min(retryAfterMs, LONGEST_RETRY_AFTER_MS)
}

function earliestIfAll(times: readonly (number | null)[]): number | null {
  let earliest: number | null = null
  for (const time of times) {
    if (time === null) return null
    earliest = Math.min(earliest ?? time, time)
  }
  return earliest
}
