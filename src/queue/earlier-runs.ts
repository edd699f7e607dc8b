/**
 * The state of a job that was released after a run without an outcome, which the job's next run continues from: paid calls and
 * tokens, an answer to repair, tries and broken connections that count against the job, and how long it has waited.
 */
import { type RawText, rawTextJson } from '../job/job.ts'
import type { EarlierUsage } from '../job/results-without-call.ts'
import type { CallRecord, RequestWait } from '../upstreams/model-server.ts'

/** The maximum number of call records in the receipt of a job that waits for a long time. */
export const MAX_CALL_RECORDS = 50

/** The approximate sum of the pauses between the calls of a run that ends without an answer. */
const PAUSES_MS = 2_500

export interface EarlierRuns extends EarlierUsage {
  readonly records: readonly CallRecord[]
  readonly tries: number
  /** `sinceMs`: when the last run ended (Unix time). `waitedMs`: how long the job had waited for model servers until then. */
  readonly sinceMs: number
  readonly waitedMs: number
  readonly repair?: Repair
  /** Calls whose connection broke; absent if none did. Versions up to 0.3 did not store it. */
  readonly breaks?: NonNullable<RequestWait['breaks']>
}

/** An answer to repair, and the rules that it violated. */
export interface Repair {
  readonly raw_text: RawText
  readonly errors: readonly string[]
}

export const NO_RUNS: EarlierRuns = {
  calls: 0,
  records: [],
  inputTokens: 0,
  outputTokens: 0,
  tries: 0,
  sinceMs: 0,
  waitedMs: 0,
}

export function earlierRunsJson({ repair, ...runs }: EarlierRuns): string {
  const json = JSON.stringify(runs)
  return repair === undefined ? json : `${json.slice(0, -1)},${repairMember(repair)}}`
}

/** The member of the stored JSON object that contains the repair. */
export function repairMember({ raw_text, errors }: Repair): string {
  return `"repair":{"raw_text":${rawTextJson(raw_text)},"errors":${JSON.stringify(errors)}}`
}

/** @param json written by `earlierRunsJson`; nothing else writes this column */
export function readEarlierRuns(json: string | undefined): EarlierRuns {
  return json === undefined ? NO_RUNS : JSON.parse(json)
}

/** The times that determine how long a job has waited after its run. */
export interface WaitTimes {
  readonly createdAtMs: number
  readonly runStartedMs: number
  readonly nowMs: number
  /** When the targets stopped responding; null if one of them can be called now. */
  readonly unavailableSinceMs: number | null
  /** When a target of the route last became available; before the start of this node if none did since then. */
  readonly availableSinceMs: number
  /** How long the run paused because the job's calls broke; absent if it did not. */
  readonly breakPausesMs?: number
}

/**
 * How long the job has waited for model servers in total. If the targets have been unavailable since before the run began, the
 * wait lasts since then or since the previous run, whichever is later. Otherwise, time in the queue counts until a target last
 * became available, and the run counts as its pauses between calls, including those after broken calls. So a job whose calls
 * always fail at an available target ends, too.
 */
export function waitedMs({ calls, sinceMs, waitedMs: before }: EarlierRuns, times: WaitTimes): number {
  const { createdAtMs, runStartedMs, nowMs, unavailableSinceMs, availableSinceMs, breakPausesMs = 0 } = times
  const beganMs = sinceMs === 0 && calls === 0 ? createdAtMs : sinceMs
  if (unavailableSinceMs !== null && unavailableSinceMs <= runStartedMs) {
    return before + Math.max(0, nowMs - Math.max(beganMs, unavailableSinceMs))
  }
  const pausedMs = unavailableSinceMs === null ? Math.min(nowMs - runStartedMs, PAUSES_MS) : 0
  const queuedMs = sinceMs === 0 ? 0 : Math.max(0, Math.min(availableSinceMs, runStartedMs) - sinceMs)
  return before + queuedMs + Math.max(0, pausedMs) + breakPausesMs
}
