/**
 * Finds out which job, and which schema, crashes a model server, by connections that break during calls. All calls in progress
 * when one breaks belong to the same break. It counts against a job only if the target had answered other jobs since its previous
 * break and at most MOST_BLAMED calls were in progress. A job with two such breaks is *isolated*: it is repeated without its
 * schema, alone at its first target, and fails if the connection breaks again while it is alone at a target that has answered
 * since. An outage therefore fails no job, because nothing is answered between its breaks.
 */
import { hash } from 'node:crypto'
import type { Clock } from '../clock.ts'
import type { StopSignal } from '../job/stop.ts'
import { dropOldest } from './circuit-breaker.ts'
import type { JobBreaks } from './model-server.ts'
import { pause } from './pause.ts'

/** With more calls in progress, a break counts against none of them. */
const MOST_BLAMED = 4
/** A job with this many counted breaks is isolated. */
const ISOLATED = 2
/** A job with this many broken calls, counted or not, is sent without its schema. */
const WITHOUT_SCHEMA = 2
/** A job with this many breaks that others may have caused runs alone among such jobs, to find out which is to blame. */
const CAREFUL = 3
/** An isolated job is not sent to further targets for this long. */
export const FIRST_TARGET_ONLY_MS = 60_000
/** How long other calls may be delayed so that an isolated job runs alone. Afterwards they run together. */
export const HOLD_MS = 8_000
/** After an isolated job, the upstream serves only others, for this many times as long as that job delayed them. */
const REST = 4

/**
 * The pause after a job's third broken call; it doubles with each further one. A job that crashes its servers thus lets others
 * go first, even if it is alone on its node and no answer proves that it is to blame. The pause ends when the target answers
 * another job.
 */
const FIRST_PAUSE_MS = 1_000
const MOST_PAUSE_MS = 30_000

export const NO_BREAKS: JobBreaks = { seen: 0, unexpected: 0, counted: 0, lastMs: 0 }

export function isIsolated({ counted }: JobBreaks): boolean {
  return counted >= ISOLATED
}

export function isSentWithoutSchema({ seen, counted }: JobBreaks): boolean {
  return seen >= WITHOUT_SCHEMA || counted >= ISOLATED
}

/** Whether the job may call a target only while no other such job does. */
export function isCareful({ unexpected }: JobBreaks): boolean {
  return unexpected >= CAREFUL
}

/** How long the job must still pause before its next call. None for an isolated job: its next break alone decides. */
export function breakPauseMs(breaks: JobBreaks, nowMs: number): number {
  const { seen, lastMs } = breaks
  if (seen < CAREFUL || isIsolated(breaks)) return 0
  const pauseMs = Math.min(MOST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (seen - CAREFUL))
  // The clock of another node may have set `lastMs`.
  return Math.min(pauseMs, lastMs + pauseMs - nowMs)
}

/** What a break shows about a job. */
export interface BrokenCall {
  /** Identifies the break. Several calls may share one. */
  readonly event: BreakEvent
  /** `certain`: the job was alone, and the target has answered since its previous break. */
  readonly blame: 'none' | 'unexpected' | 'counted' | 'certain'
}

/** The calls in progress at a break, and what the target had answered since the previous break. */
export interface BreakEvent {
  readonly inProgress: number
  readonly answered: Answered
}

interface Answered {
  /** One job that was answered; `several` if there were more. */
  readonly job: string | null
  readonly several: boolean
  readonly check: boolean
}

const NOTHING: Answered = { job: null, several: false, check: false }

/** Returns the job's broken calls including this one, and whether the job must fail. */
export function afterBreak(
  before: JobBreaks,
  { blame }: BrokenCall,
  nowMs: number,
): { readonly breaks: JobBreaks; readonly fails: boolean } {
  const isCounted = blame === 'counted' || blame === 'certain'
  const breaks = {
    seen: before.seen + 1,
    unexpected: before.unexpected + (blame === 'none' ? 0 : 1),
    counted: before.counted + (isCounted ? 1 : 0),
    lastMs: nowMs,
  }
  return { breaks, fails: blame === 'certain' && isIsolated(before) }
}

/** How a call started. */
export interface CallStart {
  readonly jobId: string
  /** The number of earlier breaks, which `began` returned. */
  readonly breaksBefore: number
  /** Whether the job is careful, so that no other careful job calls the target. */
  readonly isCareful: boolean
  /** Present for an isolated job. */
  readonly hold: Hold | null
}

/** The delay of other calls while an isolated job runs. */
export interface Hold {
  /** Whether the job is still alone. */
  isActive: boolean
  readonly end: () => void
}

/** The breaks of one target, and the calls in progress there. */
export class TargetBreaks {
  readonly #clock: Clock
  readonly #onHold: (isHeld: boolean) => void
  #inProgress = 0
  #count = 0
  #last: BreakEvent = { inProgress: 0, answered: NOTHING }
  #answered: Answered = NOTHING
  readonly #rest: { untilMs: number }
  #onIdle: (() => void) | null = null
  /** Functions that end the pauses of jobs whose calls broke: the target has answered another job. */
  readonly wakers = new Set<() => void>()

  /**
   * @param onHold starts and ends the delay of other calls
   * @param rest before when no hold may start (steady clock), at any target of the upstream, whose calls a hold delays
   */
  constructor(clock: Clock, onHold: (isHeld: boolean) => void, rest: { untilMs: number }) {
    this.#clock = clock
    this.#onHold = onHold
    this.#rest = rest
  }

  /** Records the start of a call. Each call must end once. */
  began(): number {
    this.#inProgress += 1
    return this.#count
  }

  ended(): void {
    this.#inProgress -= 1
    if (this.#inProgress === 0) this.#onIdle?.()
  }

  /** Records that the target has answered a job, or a check if it is null. */
  answered(jobId: string | null): void {
    const { job, several, check } = this.#answered
    if (jobId === null) {
      if (!check) this.#answered = { job, several, check: true }
      return
    }
    if (!several && job !== jobId) this.#answered = { job: jobId, several: job !== null, check }
    for (const wake of this.wakers) wake()
  }

  /** Records that the connection of a call broke; the call is still in progress. */
  broke({ jobId, breaksBefore, isCareful: careful, hold }: CallStart): BrokenCall {
    if (breaksBefore === this.#count) {
      this.#count += 1
      this.#last = { inProgress: this.#inProgress, answered: this.#answered }
      this.#answered = NOTHING
    }
    const event = this.#last
    const { answered, inProgress } = event
    const hasServedOthers = answered.several || (answered.job !== null && answered.job !== jobId)
    const isAlone = hold?.isActive === true && inProgress === 1
    if (isAlone && (hasServedOthers || answered.check)) return { event, blame: 'certain' }
    if (!hasServedOthers) return { event, blame: 'none' }
    return { event, blame: inProgress <= MOST_BLAMED || careful ? 'counted' : 'unexpected' }
  }

  /**
   * Delays other calls and waits for those in progress, so that an isolated job runs alone: one at a time, at most HOLD_MS. Null
   * if the signal stopped the wait. The caller ends the hold.
   */
  async hold(signal: StopSignal): Promise<Hold | null> {
    const restMs = this.#rest.untilMs - this.#clock.steadyMs()
    if (restMs > 0 && !(await pause(this.#clock, restMs, signal))) return null
    const startedMs = this.#clock.steadyMs()
    const idle = Promise.withResolvers<void>()
    const hold = {
      isActive: true,
      end: () => {
        if (!hold.isActive) return
        hold.isActive = false
        cancel()
        signal.unlisten(listener)
        const nowMs = this.#clock.steadyMs()
        this.#rest.untilMs = Math.max(this.#rest.untilMs, nowMs + (nowMs - startedMs) * REST)
        this.#onHold(false)
        idle.resolve()
      },
    }
    const listener = { onStop: hold.end }
    const cancel = this.#clock.after(HOLD_MS, hold.end)
    signal.listen(listener)
    this.#onHold(true)
    this.#onIdle = idle.resolve
    if (this.#inProgress > 0) await idle.promise
    this.#onIdle = null
    return signal.reason === null ? hold : null
  }
}

/** The number of breaks after which a schema is avoided. */
const MOST_BREAKS = 2
/** How long an avoided schema is not sent. */
export const AVOIDED_MS = 3_600_000
export const AVOIDED_BRIEFLY_MS = 60_000
/** How many schemas are remembered; the oldest are dropped. */
const REMEMBERED = 256
/** Hexadecimal digits of a fingerprint. */
const DIGITS = 16

interface KnownSchema {
  readonly breaks: number
  readonly last: BreakEvent
  readonly untilMs: number
}

/** Equal for equal texts. Also used in log lines and receipts. */
export function schemaFingerprint(schemaJson: string): string {
  return hash('sha256', schemaJson, 'hex').slice(0, DIGITS)
}

/**
 * Finds schemas that crash model servers, for example because their grammar parser cannot read them. After two breaks during
 * calls with the same schema, without an answer to such a call in between, the schema is sent to no model server for an hour; for
 * only a minute if an outage could be the reason, because only a check was answered before. Its jobs are sent without it, as
 * after a 400. Afterwards one more break is enough.
 */
export class SchemaBreaks {
  readonly #known = new Map<string, KnownSchema>()

  /** Whether the schema must not be sent now. */
  isAvoided(schemaJson: string, nowMs: number): boolean {
    if (this.#known.size === 0) return false
    const known = this.#known.get(schemaFingerprint(schemaJson))
    return known !== undefined && known.breaks >= MOST_BREAKS && nowMs < known.untilMs
  }

  /** Records that a call with the schema was answered. */
  answered(schemaJson: string): void {
    if (this.#known.size > 0) this.#known.delete(schemaFingerprint(schemaJson))
  }

  /** Records that the connection broke during a call with the schema. */
  broke(schemaJson: string, { event, blame }: BrokenCall, nowMs: number): void {
    const fingerprint = schemaFingerprint(schemaJson)
    const known = this.#known.get(fingerprint)
    if (known?.last === event || (blame === 'none' && !event.answered.check)) return
    const untilMs = nowMs + (blame === 'none' ? AVOIDED_BRIEFLY_MS : AVOIDED_MS)
    this.#known.delete(fingerprint)
    this.#known.set(fingerprint, {
      breaks: (known?.breaks ?? 0) + 1,
      last: event,
      untilMs: Math.max(untilMs, known?.untilMs ?? 0),
    })
    dropOldest(this.#known, REMEMBERED)
  }
}
