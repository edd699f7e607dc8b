/**
 * Finds out which job or schema crashes a model server, from connections that break during calls. All calls in progress when a
 * connection breaks belong to the same *break*.
 *
 * A break counts against a job if the target has answered other jobs since its previous break, and at most MOST_BLAMED calls
 * were in progress or the job is *careful*. After two such breaks a job is *isolated*: it is repeated at its first target,
 * without its schema and while no other call is in progress. The job fails if the connection breaks again under these
 * conditions and the target has answered a job or a check since the previous break. An outage therefore fails no job, because
 * nothing is answered between its breaks.
 */
import { hash } from 'node:crypto'
import type { Clock } from '../clock.ts'
import { pause, type StopSignal } from '../job/stop.ts'
import { dropOldest } from './circuit-breaker.ts'
import type { JobBreaks } from './model-server.ts'

const MOST_BLAMED = 4
const ISOLATED = 2
/** After this many broken calls, counted or not, a job is sent without its schema. */
const WITHOUT_SCHEMA = 2
/** After this many breaks that it may have caused, a job is *careful*: only one careful job at a time calls a target. */
const CAREFUL = 3
/** For this long after its last break, an isolated job is sent only to its first target. */
export const FIRST_TARGET_ONLY_MS = 60_000
/** An isolated job delays other calls for at most this long. Then they run together with it. */
export const HOLD_MS = 8_000
/** After an isolated job, no other one may delay the upstream's calls for REST times as long as that job delayed them. */
const REST = 4

/**
 * A job pauses for this time after its third broken call, and twice as long after each further one, up to MOST_PAUSE_MS. Other
 * jobs can then run, even if no answer proves that this job crashes its servers. The pause ends when the target answers another
 * job.
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

export function isCareful({ unexpected }: JobBreaks): boolean {
  return unexpected >= CAREFUL
}

/** An isolated job does not pause, because its next break decides. */
export function breakPauseMs(breaks: JobBreaks, nowMs: number): number {
  const { seen, lastMs } = breaks
  if (seen < CAREFUL || isIsolated(breaks)) return 0
  const pauseMs = Math.min(MOST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (seen - CAREFUL))
  // Another node, whose clock may differ, may have set `lastMs`.
  return Math.min(pauseMs, lastMs + pauseMs - nowMs)
}

export interface BrokenCall {
  readonly event: BreakEvent
  /**
   * `counted`: the break counts against the job. `unexpected`: too many calls were in progress. `none`: the target had answered
   * no other job. `certain`: the job was alone, and the target had answered since its previous break.
   */
  readonly blame: 'none' | 'unexpected' | 'counted' | 'certain'
}

/** Several calls may share one break. */
interface BreakEvent {
  readonly inProgress: number
  readonly answered: Answered
}

interface Answered {
  /** The target may have answered more jobs than this one; then `several` is true. */
  readonly job: string | null
  readonly several: boolean
  readonly check: boolean
}

const NOTHING: Answered = { job: null, several: false, check: false }

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

export interface CallStart {
  readonly jobId: string
  /** `began` returned this number when the call started. */
  readonly breaksBefore: number
  readonly isCareful: boolean
  /** This is null unless the job is isolated. */
  readonly hold: Hold | null
}

export interface Hold {
  /** This becomes false when other calls may start again. */
  isActive: boolean
  readonly end: () => void
}

export class TargetBreaks {
  readonly #clock: Clock
  readonly #onHold: (isHeld: boolean) => void
  #inProgress = 0
  #count = 0
  #last: BreakEvent = { inProgress: 0, answered: NOTHING }
  #answered: Answered = NOTHING
  readonly #rest: { untilMs: number }
  #onIdle: (() => void) | null = null
  /** These functions end the pauses of jobs whose calls broke. They are called when the target has answered a job. */
  readonly wakers = new Set<() => void>()

  /**
   * @param onHold called with true when the delay of other calls starts, with false when it ends
   * @param rest before `untilMs` (steady clock), no hold may start. All targets of the upstream share this object, because a
   * hold delays all calls of the upstream, and the end of one would end the delay for another.
   */
  constructor(clock: Clock, onHold: (isHeld: boolean) => void, rest: { untilMs: number }) {
    this.#clock = clock
    this.#onHold = onHold
    this.#rest = rest
  }

  /** Records the start of a call and returns the number of breaks so far. Call `ended` once for each call. */
  began(): number {
    this.#inProgress += 1
    return this.#count
  }

  ended(): void {
    this.#inProgress -= 1
    if (this.#inProgress === 0) this.#onIdle?.()
  }

  /** A check that is answered has no job, so `jobId` is null. */
  answered(jobId: string | null): void {
    const { job, several, check } = this.#answered
    if (jobId === null) {
      if (!check) this.#answered = { job, several, check: true }
      return
    }
    if (!several && job !== jobId) this.#answered = { job: jobId, several: job !== null, check }
    for (const wake of this.wakers) wake()
  }

  /** Call this before `ended`, because the call counts among those in progress. */
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
   * Delays other calls and waits for those in progress, so that an isolated job runs alone for at most HOLD_MS. Only one job of
   * the upstream holds at a time. The caller must end the hold. Resolves with null if the signal stops the job first.
   */
  async hold(signal: StopSignal): Promise<Hold | null> {
    const restMs = () => this.#rest.untilMs - this.#clock.steadyMs()
    // Jobs at several targets may have waited for the same rest. The first one holds, and the others wait again.
    while (restMs() > 0) if (!(await pause(this.#clock, restMs(), signal))) return null
    const startedMs = this.#clock.steadyMs()
    // Until this hold ends and sets the actual rest, no other may start.
    this.#rest.untilMs = startedMs + HOLD_MS + 1
    const idle = Promise.withResolvers<void>()
    const hold = {
      isActive: true,
      end: () => {
        if (!hold.isActive) return
        hold.isActive = false
        cancel()
        signal.unlisten(listener)
        const nowMs = this.#clock.steadyMs()
        this.#rest.untilMs = nowMs + (nowMs - startedMs) * REST
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

const MOST_BREAKS = 2
/** An avoided schema is not sent for this long. The shorter time applies if an outage may be the reason. */
export const AVOIDED_MS = 3_600_000
export const AVOIDED_BRIEFLY_MS = 60_000
const REMEMBERED = 256
const DIGITS = 16

interface KnownSchema {
  readonly breaks: number
  readonly last: BreakEvent
  readonly untilMs: number
}

/** Equal texts have the same fingerprint, which also appears in log lines and receipts. */
export function schemaFingerprint(schemaJson: string): string {
  return hash('sha256', schemaJson, 'hex').slice(0, DIGITS)
}

/**
 * Finds schemas that crash model servers, for example because their grammar parser cannot read them. After two breaks during
 * calls with a schema, without an answered call with that schema in between, the schema is sent to no model server for an hour.
 * Its jobs are sent without it, as after a 400. After the hour, one more break is enough.
 *
 * If the target answered only checks before the break, an outage may be the reason, so the schema is avoided for only a minute.
 */
export class SchemaBreaks {
  readonly #known = new Map<string, KnownSchema>()

  isAvoided(schemaJson: string, nowMs: number): boolean {
    if (this.#known.size === 0) return false
    const known = this.#known.get(schemaFingerprint(schemaJson))
    return known !== undefined && known.breaks >= MOST_BREAKS && nowMs < known.untilMs
  }

  answered(schemaJson: string): void {
    if (this.#known.size > 0) this.#known.delete(schemaFingerprint(schemaJson))
  }

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
