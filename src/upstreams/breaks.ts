/**
 * Connections to a target that break during a call: which job, and which schema, may be what crashes the model server.
 *
 * All calls that are in progress when one breaks belong to the same break, as when a server crashes. It counts against a job
 * only if the target had answered other jobs since its previous break, and the job was among at most MOST_BLAMED in progress. A
 * job with two such breaks is *isolated*: it is repeated without its schema, alone at its first target, and fails if the
 * connection breaks once more while it is alone at a target that has answered since.
 *
 * An outage therefore makes no job fail: while it lasts, nothing is answered between two breaks.
 */
import { hash } from 'node:crypto'
import type { Clock } from '../clock.ts'
import type { StopSignal } from '../job/stop.ts'
import { dropOldest } from './circuit-breaker.ts'
import type { JobBreaks } from './model-server.ts'
import { pause } from './pause.ts'

/** With more calls in progress, a break counts against none of them. */
const MOST_BLAMED = 4
/** A job with this many breaks that count is isolated. */
const ISOLATED = 2
/** A job with this many broken calls is sent without its schema, whether or not they count. */
const WITHOUT_SCHEMA = 2
/** After this many breaks that other jobs may have caused as well, the job runs alone among such jobs, to find out. */
const CAREFUL = 3
/** An isolated job is not sent to further targets for this long. */
export const FIRST_TARGET_ONLY_MS = 60_000
/** For how long other calls may be delayed so that an isolated job runs alone; after that, it runs together with them. */
export const HOLD_MS = 8_000
/** A target then serves the others for this many times as long, before the next isolated job. */
const REST = 4

export const NO_BREAKS: JobBreaks = { seen: 0, unexpected: 0, counted: 0, lastMs: 0 }

export function isIsolated({ counted }: JobBreaks): boolean {
  return counted >= ISOLATED
}

export function isSentWithoutSchema({ seen, counted }: JobBreaks): boolean {
  return seen >= WITHOUT_SCHEMA || counted >= ISOLATED
}

/** Whether the job calls a target only while no other such job does. */
export function isCareful({ unexpected }: JobBreaks): boolean {
  return unexpected >= CAREFUL
}

/** What a break shows about a job. */
export interface BrokenCall {
  /** Identifies the break, which several calls may have in common. */
  readonly event: BreakEvent
  /** `certain`: the job was alone, and the target has answered since its previous break. */
  readonly blame: 'none' | 'unexpected' | 'counted' | 'certain'
}

/** The calls in progress at a break, and what the target had answered since the previous one. */
export interface BreakEvent {
  readonly inProgress: number
  readonly answered: Answered
}

interface Answered {
  /** A job that was answered; `several` if there were more. */
  readonly job: string | null
  readonly several: boolean
  readonly check: boolean
}

const NOTHING: Answered = { job: null, several: false, check: false }

/** The job's broken calls after one more, and whether the job is to fail. */
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

/** How a call was made. */
export interface CallStart {
  readonly jobId: string
  /** How many breaks there were when it started: what `began` returned. */
  readonly breaksBefore: number
  /** Whether it is the only one of a careful job. */
  readonly isCareful: boolean
  /** Of an isolated job. */
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
  /** On the steady clock: the next hold may not start before. */
  #restUntilMs = 0
  #onIdle: (() => void) | null = null

  /** @param onHold delays other calls, or no longer */
  constructor(clock: Clock, onHold: (isHeld: boolean) => void) {
    this.#clock = clock
    this.#onHold = onHold
  }

  /** A call starts. Each call ends once. */
  began(): number {
    this.#inProgress += 1
    return this.#count
  }

  ended(): void {
    this.#inProgress -= 1
    if (this.#inProgress === 0) this.#onIdle?.()
  }

  /** The target has answered a job, or a check if it is null. */
  answered(jobId: string | null): void {
    const { job, several, check } = this.#answered
    if (jobId === null) {
      if (!check) this.#answered = { job, several, check: true }
    } else if (!several && job !== jobId) this.#answered = { job: jobId, several: job !== null, check }
  }

  /** The connection of a call has broken; the call is still in progress. */
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
   * Delays other calls, and waits for those in progress, so that an isolated job can run alone: one at a time, and for HOLD_MS at
   * most. Null if the signal stopped the wait. The caller ends the hold.
   */
  async hold(signal: StopSignal): Promise<Hold | null> {
    const restMs = this.#restUntilMs - this.#clock.steadyMs()
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
        this.#restUntilMs = nowMs + (nowMs - startedMs) * REST
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

/** How many breaks it takes until a schema is avoided. */
const MOST_BREAKS = 2
/** For how long the schema is not sent. */
export const AVOIDED_MS = 3_600_000
export const AVOIDED_BRIEFLY_MS = 60_000
/** How many schemas are remembered, the latest ones. */
const REMEMBERED = 256
/** Hexadecimal digits of a fingerprint. */
const DIGITS = 16

interface KnownSchema {
  readonly breaks: number
  readonly last: BreakEvent
  readonly untilMs: number
}

/** Equal for equal texts; for log lines and receipts too. */
export function schemaFingerprint(schemaJson: string): string {
  return hash('sha256', schemaJson, 'hex').slice(0, DIGITS)
}

/**
 * Schemas that crash model servers, such as one that a grammar parser cannot take: after two breaks during calls that sent the
 * same schema, without an answer to such a call in between, it is sent to no model server for an hour; only for a minute if an
 * outage could be the reason, because nothing but a check was answered before. Its jobs are sent without it, as after a 400.
 * After that, one more break is enough.
 */
export class SchemaBreaks {
  readonly #known = new Map<string, KnownSchema>()

  /** Whether the schema must not be sent now. */
  isAvoided(schemaJson: string, nowMs: number): boolean {
    if (this.#known.size === 0) return false
    const known = this.#known.get(schemaFingerprint(schemaJson))
    return known !== undefined && known.breaks >= MOST_BREAKS && nowMs < known.untilMs
  }

  /** A call that sent the schema was answered. */
  answered(schemaJson: string): void {
    if (this.#known.size > 0) this.#known.delete(schemaFingerprint(schemaJson))
  }

  /** The connection broke during a call that sent the schema. */
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
