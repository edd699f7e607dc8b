/** Describes the progress of a batch, which is stored with each step. */
import type { BatchStatus, StoredBatch } from '../store/batch-store.ts'

export interface Progress {
  /** How many lines of the input have been read, and up to which byte (`offset`). */
  readonly line: number
  readonly offset: number
  /** How many lines have requests; null until all are validated. */
  readonly total: number | null
  readonly completed: number
  readonly failed: number
  readonly inputTokens: number
  readonly cachedTokens: number
  readonly outputTokens: number
  /** The cost is in millionths of the currency. It is absent if no line had a model with a price. */
  readonly cost?: number
  readonly inProgressAtMs: number | null
  readonly endedAtMs: number | null
  /** Whether the deadline ended lines that had not started or finished. */
  readonly expired: boolean
  readonly problems: readonly LineProblem[]
  /** Why no further lines start for now; null if lines start. */
  readonly waiting: Problem | null
}

export interface Problem {
  readonly code: string
  readonly message: string
}

export interface WrongLine extends Problem {
  readonly param: string | null
}

export interface LineProblem extends WrongLine {
  readonly line: number | null
}

/** What the account specified for the batch, and what is known of its input. */
export interface AboutBatch {
  readonly metadata: Readonly<Record<string, string>> | null
  readonly window: string
  /** If this is null, the setting `v1.file_retention_seconds` applies to the result files. */
  readonly filesExpireS: number | null
  readonly inputBytes: number
  /** This URL gets the event at the end of the batch; null if the account has no webhook. */
  readonly webhookUrl: string | null
}

/** What one step has added to the progress. */
export interface BatchAdvance {
  readonly completed: number
  readonly failed: number
  /** `ended` is null while the batch is open. */
  readonly ended: BatchStatus | null
}

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

/**
 * A list lets other requests run after a batch whose progress has more characters than this, because it lists many problems.
 * Reading a hundred such batches takes a quarter of a second.
 */
const LARGE = 10_000

/** Whether a list should let other requests run after this batch. */
export function isLarge({ progressJson }: Pick<StoredBatch, 'progressJson'>): boolean {
  return progressJson.length > LARGE
}
