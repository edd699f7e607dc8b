/**
 * Fills an empty Postgres in one transaction: rows that were never committed cost nothing but space, which vacuum
 * frees.
 */
import { jobIdMs } from '../../job/job-id.ts'
import type { AuditEntry } from '../audit-store.ts'
import type { Expiry } from '../expiry.ts'
import { notEmpty } from '../not-empty.ts'
import { outcomeBytes, requestBytes } from '../stored-bytes.ts'
import {
  CALLBACK_COLUMNS,
  type TargetOptions,
  type TransferredAccount,
  type TransferredIdempotencyKey,
  type TransferredJob,
  type TransferredKey,
  type TransferredResponse,
  type TransferTarget,
} from '../transfer-contract.ts'
import type { UsageRecord } from '../usage-store.ts'
import { checkFitness } from './fitness.ts'
import { partitionsFor } from './partitions.ts'
import { migratePostgres } from './schema.ts'
import { TransferConnection } from './transfer-connection.ts'
import {
  ACCOUNTS,
  AUDIT,
  CALLBACKS,
  IDEMPOTENCY,
  JOBS,
  KEYS,
  OPEN_JOBS,
  OUTCOMES,
  QUOTA_SUMS,
  RESPONSES,
  USAGE,
} from './transfer-inserts.ts'

export async function openPostgresTarget(
  url: string,
  { expiry, onNote }: TargetOptions,
): Promise<TransferTarget> {
  await migratePostgres(url)
  const connection = await TransferConnection.begin(url, {
    mode: 'isolation level read committed',
    lockTables: 'lock table nodes, accounts, jobs in share row exclusive mode',
  })
  try {
    await checkFitness(connection, onNote)
    const [row] = await connection.run(HOLDS_ANYTHING)
    if (row?.anything) throw notEmpty('This database')
    return new PostgresTarget(connection, expiry)
  } catch (error) {
    await connection.close()
    throw error
  }
}

/** The node in rows of jobs that were settled in another database; no node has that name. */
const NOBODY = 'copied'
/** Usage is transferred as sums. */
const COUNTED = true

class PostgresTarget implements TransferTarget {
  readonly #connection: TransferConnection
  readonly #expiry: Expiry

  constructor(connection: TransferConnection, expiry: Expiry) {
    this.#connection = connection
    this.#expiry = expiry
  }

  /** An account's next turn is not stored here: it follows the account's queued jobs. */
  addAccounts(accounts: readonly TransferredAccount[]): Promise<void> {
    return this.#insert(
      ACCOUNTS,
      accounts.map((a) => [
        ...[a.name, a.tier, a.secret, a.previousSecret, a.rotatedAtMs],
        ...[a.suspendedAtMs, a.capJobs, a.capTokens, a.capOpenJobs, a.capStoredBytes],
      ]),
    )
  }

  addKeys(keys: readonly TransferredKey[]): Promise<void> {
    return this.#insert(
      KEYS,
      keys.map((k) => [k.id, k.account, k.hash, k.createdAtMs, k.expiresAtMs, k.revokedAtMs]),
    )
  }

  async addJobs(jobs: readonly TransferredJob[]): Promise<void> {
    await partitionsFor(
      this.#connection,
      jobs.map(({ id }) => jobIdMs(id)),
      this.#expiry,
    )
    const rows: Record<'asked' | 'waiting' | 'ended' | 'owed', unknown[][]> = {
      asked: [],
      waiting: [],
      ended: [],
      owed: [],
    }
    for (const job of jobs) {
      const { id, account, attempt, callback, state } = job
      const asked = requestBytes(job.messages, job.responseFormat, callback)
      rows.asked.push(askedOf(job))
      if (state.kind === 'waits') {
        const { route, earlier, sinceMs, waitedMs } = state.wait
        const wait = [route, earlier, sinceMs, waitedMs]
        rows.waiting.push([
          ...[id, account, callback !== null, state.turn, attempt, state.crashCount, asked],
          ...wait,
        ])
        continue
      }
      const {
        status,
        content,
        error,
        usage,
        receipt,
        crashCount,
        claimedAtMs,
        settledAtMs,
        callback: owed,
      } = state
      const ended = [
        status,
        content,
        error,
        usage,
        receipt,
        NOBODY,
        attempt,
        crashCount,
        claimedAtMs,
        settledAtMs,
        COUNTED,
        asked + outcomeBytes(content, error, receipt),
      ]
      rows.ended.push([id, ...ended])
      if (owed) rows.owed.push([id, account, ...CALLBACK_COLUMNS.map((name) => owed[name])])
    }
    await this.#insert(JOBS, rows.asked)
    await this.#insert(OPEN_JOBS, rows.waiting)
    await this.#insert(OUTCOMES, rows.ended)
    await this.#insert(CALLBACKS, rows.owed)
  }

  async addCachedResponses(responses: readonly TransferredResponse[]): Promise<number> {
    const rows = responses.map((a) => [a.fingerprint, a.jobId, a.keptAtMs, a.untilMs])
    const added = await this.#connection.run(RESPONSES, columnsOf(rows))
    return added.length
  }

  addIdempotencyKeys(keys: readonly TransferredIdempotencyKey[]): Promise<void> {
    return this.#insert(
      IDEMPOTENCY,
      keys.map((k) => [k.account, k.key, k.fingerprint, k.jobIds, k.untilMs]),
    )
  }

  addUsage(usage: readonly UsageRecord[]): Promise<void> {
    return this.#insert(
      USAGE,
      usage.map((u) => [
        ...[u.account, u.month, u.model],
        ...[u.jobs, u.failedJobs, u.cacheHits, u.calls, u.inputTokens, u.outputTokens],
      ]),
    )
  }

  addAuditEntries(entries: readonly AuditEntry[]): Promise<void> {
    return this.#insert(
      AUDIT,
      entries.map((a) => [a.id, a.atMs, a.who, a.what, a.account, a.target, a.detailsJson, a.outcome]),
    )
  }

  /** The target's queue starts at its head, so no turn needs to be stored. */
  async commit(): Promise<void> {
    // Plans from the statistics of empty tables would be poor until autovacuum gathers new ones.
    await this.#connection.run(
      'analyze accounts, keys, jobs, outcomes, open_jobs, callbacks, kept_answers, idempotency, usage, audit',
    )
    await this.#connection.run('set local enable_seqscan = on')
    await this.#connection.run(QUOTA_SUMS)
    await this.#connection.run('commit')
  }

  close(): Promise<void> {
    return this.#connection.close()
  }

  async #insert(statement: string, rows: readonly unknown[][]): Promise<void> {
    if (rows.length > 0) await this.#connection.run(statement, columnsOf(rows))
  }
}

function askedOf(job: TransferredJob): unknown[] {
  const { id, account, tier, model, cacheTtlS, inputTokens, createdAtMs, messages, responseFormat } = job
  return [
    id,
    account,
    tier,
    model,
    cacheTtlS,
    inputTokens,
    createdAtMs,
    messages,
    responseFormat,
    job.callback,
  ]
}

function columnsOf(rows: readonly unknown[][]): unknown[][] {
  return (rows[0] ?? []).map((_, column) => rows.map((row) => row[column]))
}

const HOLDS_ANYTHING = `
  select exists (select 1 from accounts) or exists (select 1 from jobs) or exists (select 1 from usage) as anything`
