/** Reads a whole SQLite file for a copy, as it was at one moment, while no server uses it. */
import { existsSync } from 'node:fs'
import type { DatabaseSync } from 'node:sqlite'
import type { AuditEntry } from '../audit-store.ts'
import { DatabaseProblem } from '../database-problem.ts'
import {
  BATCH_ROWS,
  BATCH_WEIGHT,
  type Batches,
  CALLBACK_SELECT,
  type TransferredAccount,
  type TransferredIdempotencyKey,
  type TransferredJob,
  type TransferredKey,
  type TransferredResponse,
  type TransferSource,
} from '../transfer-contract.ts'
import { readTransferredJob } from '../transferred-job.ts'
import type { UsageRecord } from '../usage-store.ts'
import { lockForCopying, migrate, openFile, schemaOf } from './file.ts'
import { toldAsProblem } from './transfer-problem.ts'

type Row = Readonly<Record<string, unknown>>

export function openSqliteSource(path: string): TransferSource {
  // Opening would make it, and an address that is mistyped would be copied as an empty database.
  if (!existsSync(path)) throw new DatabaseProblem(`There is no file ${path}.`)
  const lock = lockForCopying(path)
  let db: DatabaseSync | undefined
  try {
    db = openFile(path)
    if (schemaOf(db) === 0) {
      throw new DatabaseProblem(`${path} is no database of Parley's.`)
    }
    migrate(db)
    return new SqliteSource(db, lock)
  } catch (error) {
    db?.close()
    lock.close()
    throw error
  }
}

class SqliteSource implements TransferSource {
  readonly turn: number
  readonly #db: DatabaseSync
  readonly #lock: DatabaseSync

  constructor(db: DatabaseSync, lock: DatabaseSync) {
    this.#db = db
    this.#lock = lock
    // One snapshot for all that follows: commands may go on making keys beside it.
    db.exec('begin')
    this.turn = Number(db.prepare('select turn from line').get()?.turn)
  }

  accounts(): Batches<TransferredAccount> {
    return this.#batches(ACCOUNTS, [this.turn], (row) => row as unknown as TransferredAccount)
  }

  keys(): Batches<TransferredKey> {
    return this.#batches(KEYS, [], (row) => row as unknown as TransferredKey)
  }

  jobs(): Batches<TransferredJob> {
    return this.#batches(JOBS, [], (row) => readTransferredJob(row, this.turn), weightOf)
  }

  cachedResponses(nowMs: number): Batches<TransferredResponse> {
    return this.#batches(KEPT, [nowMs], (row) => row as unknown as TransferredResponse)
  }

  idempotencyKeys(nowMs: number): Batches<TransferredIdempotencyKey> {
    return this.#batches(IDEMPOTENCY, [nowMs], (row) => row as unknown as TransferredIdempotencyKey)
  }

  usage(): Batches<UsageRecord> {
    return this.#batches(USAGE, [], (row) => row as unknown as UsageRecord)
  }

  auditEntries(): Batches<AuditEntry> {
    return this.#batches(ACTS, [], (row) => row as unknown as AuditEntry)
  }

  async close(): Promise<void> {
    this.#db.close()
    this.#lock.close()
  }

  /** One walk along the primary key, a batch at a time: it holds no more of the table than that. */
  async *#batches<T>(
    sql: string,
    values: readonly number[],
    read: (row: Row) => T,
    weigh: (row: Row) => number = () => 0,
  ): AsyncGenerator<readonly T[]> {
    const rows = toldAsProblem(() => this.#db.prepare(sql).iterate(...values))
    for (let more = true; more; ) {
      const batch: T[] = []
      toldAsProblem(() => {
        for (let weight = 0; batch.length < BATCH_ROWS && weight < BATCH_WEIGHT; ) {
          const { done, value } = rows.next()
          if (done) {
            more = false
            break
          }
          weight += weigh(value)
          batch.push(read(value))
        }
      })
      if (batch.length > 0) yield batch
    }
  }
}

const TEXTS = ['messages', 'responseFormat', 'callback', 'content', 'error', 'receipt']

function weightOf(row: Row): number {
  return TEXTS.reduce((total, name) => total + String(row[name] ?? '').length, 0)
}

const ACCOUNTS = `
  select a.name, a.tier, a.secret, a.previous_secret as previousSecret, a.rotated_at_ms as rotatedAtMs,
    a.suspended_at_ms as suspendedAtMs, a.cap_jobs as capJobs, a.cap_tokens as capTokens,
    t.next_turn as nextTurn
  from accounts a left join turns t on t.account = a.name and t.next_turn > ? order by a.name`
const KEYS = `
  select id, account, hash, created_at_ms as createdAtMs, expires_at_ms as expiresAtMs,
    revoked_at_ms as revokedAtMs
  from keys order by id`
const JOBS = `
  select j.id, j.account, j.tier, j.model, j.cache_ttl_s as cacheTtlS, j.input_tokens as inputTokens,
    j.created_at_ms as createdAtMs, r.messages, r.response_format as responseFormat, r.callback,
    j.attempt, j.turn, j.deaths, j.status, o.content, o.error, o.usage, o.receipt,
    j.claimed_at_ms as claimedAtMs, j.settled_at_ms as settledAtMs,
    ${CALLBACK_SELECT}
  from jobs j cross join requests r on r.seq = j.seq
    left join outcomes o on o.seq = j.seq left join callbacks c on c.seq = j.seq
  order by j.id`
/** From the jobs on, because only they know their rows' number. */
const KEPT = `
  select j.id as jobId, k.fingerprint, j.settled_at_ms as keptAtMs, k.until_ms as untilMs
  from jobs j cross join kept_answers k on k.seq = j.seq where k.until_ms > ? order by j.id`
const IDEMPOTENCY = `
  select account, key, fingerprint, job_ids as jobIds, until_ms as untilMs
  from idempotency where until_ms > ? order by account, key`
const USAGE = `
  select account, month, model, jobs, failed_jobs as failedJobs, cache_hits as cacheHits, calls,
    input_tokens as inputTokens, output_tokens as outputTokens
  from usage order by account, month, model`
const ACTS = `
  select id, at_ms as atMs, who, what, account, target, details as detailsJson, outcome from audit order by id`
