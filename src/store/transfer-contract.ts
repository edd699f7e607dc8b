/**
 * A transfer from one database to another: its rows, which are the same for every store, its source and its target.
 * Conversations and outcomes are copied as stored JSON text, so that nothing in them changes.
 */
import type { AuditEntry } from './audit-store.ts'
import type { Expiry } from './expiry.ts'
import type { UsageRecord } from './usage-store.ts'

/** Holds its database exclusively, and sees it as it was at one moment. */
export interface TransferSource {
  /** The queue's turn: no job that is queued later comes before it. */
  readonly turn: number
  accounts(): Batches<TransferredAccount>
  keys(): Batches<TransferredKey>
  /** In the order of their ids, expired ones included. */
  jobs(): Batches<TransferredJob>
  cachedResponses(nowMs: number): Batches<TransferredResponse>
  idempotencyKeys(nowMs: number): Batches<TransferredIdempotencyKey>
  usage(): Batches<UsageRecord>
  /** Oldest first. */
  auditEntries(): Batches<AuditEntry>
  close(): Promise<void>
}

/** Holds its database exclusively. The database was empty, and all or nothing is stored in it. */
export interface TransferTarget {
  addAccounts(accounts: readonly TransferredAccount[]): Promise<void>
  addKeys(keys: readonly TransferredKey[]): Promise<void>
  addJobs(jobs: readonly TransferredJob[]): Promise<void>
  /** Those of jobs that were added; returns how many there were. */
  addCachedResponses(responses: readonly TransferredResponse[]): Promise<number>
  addIdempotencyKeys(keys: readonly TransferredIdempotencyKey[]): Promise<void>
  addUsage(usage: readonly UsageRecord[]): Promise<void>
  addAuditEntries(entries: readonly AuditEntry[]): Promise<void>
  /** Makes all that was added durable. */
  commit(turn: number): Promise<void>
  /** Releases the database. Without a commit, it is unchanged. */
  close(): Promise<void>
}

export interface TargetOptions {
  /** Determines the length of partitions, if the store has any. */
  readonly expiry: Expiry
  /** What the operator should know about the database, and that does not stop the transfer. */
  readonly onNote: (message: string) => void
}

/** Each small enough to hold in memory, however many there are. */
export type Batches<T> = AsyncIterable<readonly T[]>

export interface TransferredAccount {
  readonly name: string
  readonly tier: string
  readonly secret: string
  readonly previousSecret: string | null
  readonly rotatedAtMs: number | null
  readonly suspendedAtMs: number | null
  /** As stored (account-rows.ts). */
  readonly capJobs: number | null
  readonly capTokens: number | null
  readonly capOpenJobs: number | null
  readonly capStoredBytes: number | null
  /** The lowest turn of its next queued job; null if only the queue's turn matters. */
  readonly nextTurn: number | null
}

export interface TransferredKey {
  readonly id: string
  readonly account: string
  readonly hash: string
  readonly createdAtMs: number
  readonly expiresAtMs: number | null
  readonly revokedAtMs: number | null
}

export interface TransferredJob {
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
  readonly state: TransferredQueuedJob | TransferredOutcome
}

/** An unfinished job. One that a node held is transferred as released: at the head of the queue, without another crash. */
export interface TransferredQueuedJob {
  readonly kind: 'waits'
  readonly turn: number
  readonly crashCount: number
  readonly wasHeld: boolean
  readonly wait: TransferredWait
}

/** The route of a queued job, and how long it has waited for a model server, if at all. */
export interface TransferredWait {
  readonly route: string
  readonly earlier: string | null
  readonly sinceMs: number | null
  readonly waitedMs: number | null
}

export interface TransferredOutcome {
  readonly kind: 'ended'
  readonly status: string
  readonly content: string | null
  readonly error: string | null
  readonly usage: string
  readonly receipt: string
  readonly crashCount: number
  readonly claimedAtMs: number | null
  readonly settledAtMs: number
  readonly callback: TransferredCallback | null
}

/** The columns of callbacks that every store has, in addition to the job and the account. */
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

export type TransferredCallback = Readonly<Record<(typeof CALLBACK_COLUMNS)[number], string | number | null>>

/** For a select from `callbacks c`, under names with a prefix. */
export const CALLBACK_SELECT = CALLBACK_COLUMNS.map((name) => `c.${name} as callback_${name}`).join(', ')

/** From a row with `CALLBACK_SELECT`; null if there was no callback. */
export function readTransferredCallback(row: Readonly<Record<string, unknown>>): TransferredCallback | null {
  if (row.callback_lane === null) return null
  return Object.fromEntries(
    CALLBACK_COLUMNS.map((name) => [name, row[`callback_${name}`]]),
  ) as TransferredCallback
}

export interface TransferredResponse {
  readonly jobId: string
  readonly fingerprint: string
  readonly keptAtMs: number
  readonly untilMs: number
}

export interface TransferredIdempotencyKey {
  readonly account: string
  readonly key: string
  readonly fingerprint: string
  readonly jobIds: string
  readonly untilMs: number
}

/** Maximum rows of a batch, and the characters after which it ends. Larger batches cost more memory than they gain. */
export const BATCH_ROWS = 1000
export const BATCH_WEIGHT = 4 * 1024 * 1024
