/** The progress of a batch, which is stored with each of its steps. */
import type { BatchStatus, StoredBatch } from '../store/batch-store.ts'

export interface Progress {
  /** How many lines and bytes of the input were read. */
  readonly line: number
  readonly offset: number
  /** How many lines have requests; null until they were validated. */
  readonly total: number | null
  readonly completed: number
  readonly failed: number
  readonly inputTokens: number
  readonly cachedTokens: number
  readonly outputTokens: number
  /** In millionths of the currency; absent if no line had a model with a price. */
  readonly cost?: number
  readonly inProgressAtMs: number | null
  readonly endedAtMs: number | null
  /** Whether lines did not start, or not finish, before the deadline of the batch. */
  readonly expired: boolean
  /** The problems of the batch, by line. */
  readonly problems: readonly LineProblem[]
  /** Why no lines start for now; null if they do. */
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

/** The account's description of a batch, and facts about its input. */
export interface AboutBatch {
  readonly metadata: Readonly<Record<string, string>> | null
  readonly window: string
  /** How long its files are kept, in seconds; null for the setting. */
  readonly filesExpireS: number | null
  readonly inputBytes: number
  /** The URL to which its end is reported; null for none. */
  readonly webhookUrl: string | null
}

/** The changes of one step. */
export interface BatchAdvance {
  readonly completed: number
  readonly failed: number
  /** How the batch ended; null if it is still open. */
  readonly ended: BatchStatus | null
}

/** The batches of a node: the status of each, and how many lines have open jobs. */
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
