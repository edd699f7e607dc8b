/** Reads a whole SQLite file for a transfer, as it was at one moment, while no server uses it. */
import { existsSync } from 'node:fs'
import type { DatabaseSync } from 'node:sqlite'
import { AUDIT_COLUMNS, readAuditEntry } from '../audit-rows.ts'
import type { AuditEntry } from '../audit-store.ts'
import { DatabaseProblem } from '../database-problem.ts'
import type { Row } from '../rows.ts'
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
import {
  readTransferredAccount,
  readTransferredIdempotencyKey,
  readTransferredJob,
  readTransferredKey,
  readTransferredResponse,
} from '../transferred-rows.ts'
import { readUsage, USAGE_COLUMNS } from '../usage-rows.ts'
import type { UsageRecord } from '../usage-store.ts'
import { lockForTransfer, openFile } from './file.ts'
import { migrate, schemaVersion } from './schema.ts'
import { asProblem } from './transfer-problem.ts'

export function openSqliteSource(path: string): TransferSource {
  // Opening would create it, and a mistyped address would be transferred as an empty database.
  if (!existsSync(path)) throw new DatabaseProblem(`There is no file ${path}.`)
  const lock = lockForTransfer(path)
  let db: DatabaseSync | undefined
  try {
    db = openFile(path)
    if (schemaVersion(db) === 0) {
      throw new DatabaseProblem(`${path} is not a database of Parley.`)
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
    // One snapshot for all that follows: commands may create keys meanwhile.
    db.exec('begin')
    this.turn = Number(db.prepare('select turn from line').get()?.turn)
  }

  accounts(): Batches<TransferredAccount> {
    return this.#batches(ACCOUNTS, [this.turn], readTransferredAccount)
  }

  keys(): Batches<TransferredKey> {
    return this.#batches(KEYS, [], readTransferredKey)
  }

  jobs(): Batches<TransferredJob> {
    return this.#batches(JOBS, [], (row) => readTransferredJob(row, this.turn), weightOf)
  }

  cachedResponses(nowMs: number): Batches<TransferredResponse> {
    return this.#batches(RESPONSES, [nowMs], readTransferredResponse)
  }

  idempotencyKeys(nowMs: number): Batches<TransferredIdempotencyKey> {
    return this.#batches(IDEMPOTENCY, [nowMs], readTransferredIdempotencyKey)
  }

  usage(): Batches<UsageRecord> {
    return this.#batches(USAGE, [], readUsage)
  }

  auditEntries(): Batches<AuditEntry> {
    return this.#batches(AUDIT, [], readAuditEntry)
  }

  async close(): Promise<void> {
    this.#db.close()
    this.#lock.close()
  }

  /** One scan along the primary key, a batch at a time: it holds no more of the table than that. */
  async *#batches<T>(
    sql: string,
    values: readonly number[],
    read: (row: Row) => T,
    weigh: (row: Row) => number = () => 0,
  ): AsyncGenerator<readonly T[]> {
    const rows = asProblem(() => this.#db.prepare(sql).iterate(...values))
    for (let more = true; more; ) {
      const batch: T[] = []
      asProblem(() => {
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

const TEXTS = ['messages', 'response_format', 'callback', 'content', 'error', 'receipt']

function weightOf(row: Row): number {
  return TEXTS.reduce((total, name) => total + String(row[name] ?? '').length, 0)
}

const ACCOUNTS = `
  select a.name, a.tier, a.secret, a.previous_secret, a.rotated_at_ms,
    a.suspended_at_ms, a.cap_jobs, a.cap_tokens, a.cap_open_jobs, a.cap_stored_bytes,
    t.next_turn
  from accounts a left join turns t on t.account = a.name and t.next_turn > ? order by a.name`
const KEYS = `
  select id, account, hash, created_at_ms, expires_at_ms,
    revoked_at_ms
  from keys order by id`
const JOBS = `
  select j.id, j.account, j.tier, j.model, j.cache_ttl_s, j.input_tokens,
    j.created_at_ms, r.messages, r.response_format, r.callback,
    j.attempt, j.turn, j.deaths, j.status, o.content, o.error, o.usage, o.receipt,
    j.claimed_at_ms, j.settled_at_ms, j.route, j.earlier, j.waits_since_ms, j.waited_ms,
    ${CALLBACK_SELECT}
  from jobs j cross join requests r on r.seq = j.seq
    left join outcomes o on o.seq = j.seq left join callbacks c on c.seq = j.seq
  order by j.id`
/** Starts from the jobs, because only their rows have the row number. */
const RESPONSES = `
  select j.id as job_id, k.fingerprint, j.settled_at_ms as kept_at_ms, k.until_ms
  from jobs j cross join kept_answers k on k.seq = j.seq where k.until_ms > ? order by j.id`
const IDEMPOTENCY = `
  select account, key, fingerprint, job_ids, until_ms
  from idempotency where until_ms > ? order by account, key`
const USAGE = `
  select ${USAGE_COLUMNS} from usage order by account, month, model`
const AUDIT = `
  select ${AUDIT_COLUMNS} from audit order by id`
