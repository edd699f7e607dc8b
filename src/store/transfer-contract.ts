/**
 * What a copy takes from one database to another, in rows that are alike for every store, and who gives and takes them.
 * Conversations and outcomes stay the JSON text that they are stored as, so that nothing in them changes on the way.
 */
import type { Act } from './audit-store.ts'
import type { Expiry } from './expiry.ts'
import type { UsageRecord } from './usage-store.ts'

/** Holds its database for the copy alone, and sees it as it was at one moment. */
export interface TransferSource {
  /** How far the line had come: no job that joins it later stands before that. */
  readonly turn: number
  accounts(): Batches<CopiedAccount>
  keys(): Batches<CopiedKey>
  /** In the order of their ids, expired ones included. */
  jobs(): Batches<CopiedJob>
  keptAnswers(nowMs: number): Batches<CopiedAnswer>
  idempotencyKeys(nowMs: number): Batches<CopiedIdempotencyKey>
  usage(): Batches<UsageRecord>
  /** Oldest first. */
  acts(): Batches<Act>
  close(): Promise<void>
}

/** Holds its database for the copy alone. It held no account and no job, and all or nothing is stored in it. */
export interface TransferTarget {
  addAccounts(accounts: readonly CopiedAccount[]): Promise<void>
  addKeys(keys: readonly CopiedKey[]): Promise<void>
  addJobs(jobs: readonly CopiedJob[]): Promise<void>
  /** Those of jobs that were added; returns how many there were. */
  addKeptAnswers(answers: readonly CopiedAnswer[]): Promise<number>
  addIdempotencyKeys(keys: readonly CopiedIdempotencyKey[]): Promise<void>
  addUsage(usage: readonly UsageRecord[]): Promise<void>
  addActs(acts: readonly Act[]): Promise<void>
  /** Makes all that was added durable. */
  commit(turn: number): Promise<void>
  /** Lets go of the database. Without a commit it is as it was before. */
  close(): Promise<void>
}

export interface TargetOptions {
  /** Decides how long partitions are, where a store has any. */
  readonly expiry: Expiry
  /** What the operator should know of the database, and that does not stop the copy. */
  readonly onNote: (message: string) => void
}

/** Each small enough to hold in memory, however many there are. */
export type Batches<T> = AsyncIterable<readonly T[]>

export interface CopiedAccount {
  readonly name: string
  readonly tier: string
  readonly secret: string
  readonly previousSecret: string | null
  readonly rotatedAtMs: number | null
  readonly suspendedAtMs: number | null
  /** As stored (account-rows.ts). */
  readonly capJobs: number | null
  readonly capTokens: number | null
  /** The least turn of its next job that must wait; null where the line alone decides. */
  readonly nextTurn: number | null
}

export interface CopiedKey {
  readonly id: string
  readonly account: string
  readonly hash: string
  readonly createdAtMs: number
  readonly expiresAtMs: number | null
  readonly revokedAtMs: number | null
}

export interface CopiedJob {
  readonly id: string
  readonly account: string
  readonly tier: string
  readonly model: string
  readonly cacheTtlS: number
  readonly inputTokens: number
  readonly createdAtMs: number
  readonly messages: string
  readonly responseFormat: string
  readonly callback: string | null
  readonly attempt: number
  readonly state: CopiedPlace | CopiedOutcome
}

/** A job that has not ended. One that a node held comes as given back: at the head of the line, with no death counted. */
export interface CopiedPlace {
  readonly kind: 'waits'
  readonly turn: number
  readonly deaths: number
  readonly wasHeld: boolean
}

export interface CopiedOutcome {
  readonly kind: 'ended'
  readonly status: string
  readonly content: string | null
  readonly error: string | null
  readonly usage: string
  readonly receipt: string
  readonly deaths: number
  readonly claimedAtMs: number | null
  readonly settledAtMs: number
  readonly callback: CopiedCallback | null
}

/** What the rows of callbacks hold alike in every store, beside whose they are. */
export const CALLBACK_COLUMNS = [
  'lane',
  'attempt',
  'tries',
  'owed_since_ms',
  'due_at_ms',
  'delivered_at_ms',
  'failed_at_ms',
  'attempts',
] as const

export type CopiedCallback = Readonly<Record<(typeof CALLBACK_COLUMNS)[number], string | number | null>>

/** For a select from `callbacks c`, under names of their own. */
export const CALLBACK_SELECT = CALLBACK_COLUMNS.map((name) => `c.${name} as callback_${name}`).join(', ')

/** From a row with what `CALLBACK_SELECT` says; null where there was none. */
export function copiedCallback(row: Readonly<Record<string, unknown>>): CopiedCallback | null {
  if (row.callback_lane === null) return null
  return Object.fromEntries(CALLBACK_COLUMNS.map((name) => [name, row[`callback_${name}`]])) as CopiedCallback
}

export interface CopiedAnswer {
  readonly jobId: string
  readonly fingerprint: string
  readonly keptAtMs: number
  readonly untilMs: number
}

export interface CopiedIdempotencyKey {
  readonly account: string
  readonly key: string
  readonly fingerprint: string
  readonly jobIds: string
  readonly untilMs: number
}

/** Rows of a batch, and the characters after which it ends: what more would gain is lost in its memory. */
export const BATCH_ROWS = 1000
export const BATCH_WEIGHT = 4 * 1024 * 1024
