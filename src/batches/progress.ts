/** The progress of a batch, which is stored with each of its steps. */
import type { BatchStatus, StoredBatch } from '../store/batch-store.ts'

export interface Progress {
  /** The line and the byte of the input up to which it was read. */
  readonly line: number
  readonly offset: number
  /** How many lines have requests; null until all were validated. */
  readonly total: number | null
  readonly completed: number
  readonly failed: number
  readonly inputTokens: number
  readonly cachedTokens: number
  readonly outputTokens: number
  /** The cost in millionths of the currency; absent if no line had a model with a price. */
  readonly cost?: number
  readonly inProgressAtMs: number | null
  readonly endedAtMs: number | null
  /** Whether some lines did not run or finish within the time of the batch. */
  readonly expired: boolean
  /** What is wrong with the batch, by line. */
  readonly problems: readonly LineProblem[]
  /** Why no further lines start for now; null if they do. */
  readonly waiting: Problem | null
}

export interface Problem {
  readonly code: string
  readonly message: string
}

export interface LineProblem extends Problem {
  readonly line: number | null
  readonly param: string | null
}

/** What the account specified for a batch, and what is known of its input. */
export interface AboutBatch {
  readonly metadata: Readonly<Record<string, string>> | null
  readonly window: string
  /** How long the batch's files are stored, in seconds; null for the setting. */
  readonly filesExpireS: number | null
  readonly inputBytes: number
  /** The URL that gets the event when the batch ends; null for none. */
  readonly webhookUrl: string | null
}

/** The progress that one step made. */
export interface BatchAdvance {
  readonly completed: number
  readonly failed: number
  /** How the batch ended; null if it is still open. */
  readonly ended: BatchStatus | null
}

/** The batches that a node runs: the status of each, and how many lines have open jobs. */
export interface OwnedBatches {
  readonly statuses: readonly BatchStatus[]
  readonly lines: number
}

export const NO_BATCHES: OwnedBatches = { statuses: [], lines: 0 }

const AT_FIRST: Progress = {
  line: 0,
  offset: 0,
  total: null,
  completed: 0,
  failed: 0,
  inputTokens: 0,
  cachedTokens: 0,
  outputTokens: 0,
  inProgressAtMs: null,
  endedAtMs: null,
  expired: false,
  problems: [],
  waiting: null,
}

export function progressOf({ progressJson }: Pick<StoredBatch, 'progressJson'>): Progress {
  return progressJson === '' ? AT_FIRST : JSON.parse(progressJson)
}

export function aboutOf({ aboutJson }: Pick<StoredBatch, 'aboutJson'>): AboutBatch {
  return JSON.parse(aboutJson)
}
