/**
 * Fills an empty SQLite file in one transaction. It uses a rollback journal: that holds only the few pages there were
 * before, where a write-ahead log would hold all that is transferred. A transfer that is killed is rolled back by the next
 * process that opens the file.
 */
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { AuditEntry } from '../audit-store.ts'
import { DatabaseProblem } from '../database-problem.ts'
import { notEmpty } from '../not-empty.ts'
import { outcomeBytes, requestBytes } from '../stored-bytes.ts'
import {
  CALLBACK_COLUMNS,
  type TransferredAccount,
  type TransferredIdempotencyKey,
  type TransferredJob,
  type TransferredKey,
  type TransferredResponse,
  type TransferredWait,
  type TransferTarget,
} from '../transfer-contract.ts'
import type { UsageRecord } from '../usage-store.ts'
import { holdsAnything } from './database-summary.ts'
import { lockForTransfer, openFile } from './file.ts'
import { MARK_COUNTED, QuotaSums } from './quota-sums.ts'
import { migrate } from './schema.ts'
import { asProblem } from './transfer-problem.ts'

const NO_WAIT: TransferredWait = { route: '', earlier: null, sinceMs: null, waitedMs: null }

export function openSqliteTarget(path: string): TransferTarget {
  // The lock first: while another transfer fills the file it cannot even be opened.
  const lock = lockForTransfer(path)
  let db: DatabaseSync | undefined
  try {
    db = openFile(path)
    migrate(db)
    if (holdsAnything(db)) throw notEmpty(path)
    leaveWriteAheadLog(db, path)
    // Durable even if the power fails just after the commit: the journal's removal is, too.
    db.exec('pragma synchronous = extra; begin exclusive')
    if (holdsAnything(db)) throw notEmpty(path)
    return new SqliteTarget(db, lock)
  } catch (error) {
    db?.close()
    lock.close()
    throw error
  }
}

function leaveWriteAheadLog(db: DatabaseSync, path: string): void {
  try {
    db.exec('pragma journal_mode = delete')
  } catch (error) {
    throw new DatabaseProblem(`Another program has ${path} open. Stop it first.`, { cause: error })
  }
}

class SqliteTarget implements TransferTarget {
  readonly #db: DatabaseSync
  readonly #lock: DatabaseSync
  readonly #statements: ReturnType<typeof prepare>
  readonly #quotas = new QuotaSums()
  #seq = 0

  constructor(db: DatabaseSync, lock: DatabaseSync) {
    this.#db = db
    this.#lock = lock
    this.#statements = prepare(db)
  }

  addAccounts(accounts: readonly TransferredAccount[]): Promise<void> {
    const { account, nextTurn } = this.#statements
    return each(accounts, (a) => {
      const caps = [a.capJobs, a.capTokens, a.capOpenJobs, a.capStoredBytes] as const
      account.run(a.name, a.tier, a.secret, a.previousSecret, a.rotatedAtMs, a.suspendedAtMs, ...caps)
      if (a.nextTurn !== null) nextTurn.run(a.name, a.nextTurn)
    })
  }

  addKeys(keys: readonly TransferredKey[]): Promise<void> {
    const { key } = this.#statements
    return each(keys, (k) => {
      key.run(k.id, k.account, k.hash, k.createdAtMs, k.expiresAtMs, k.revokedAtMs)
    })
  }

  addJobs(jobs: readonly TransferredJob[]): Promise<void> {
    return each(jobs, (job) => this.#addJob(job, ++this.#seq))
  }

  #addJob(job: TransferredJob, seq: number): void {
    const { job: insert, request, outcome, callback } = this.#statements
    const { state } = job
    const place =
      state.kind === 'waits'
        ? {
            status: job.attempt > 0 ? 'assigned' : 'pending',
            turn: state.turn,
            crashCount: state.crashCount,
            claimedAtMs: null,
            settledAtMs: null,
            wait: state.wait,
          }
        : { ...state, turn: null, wait: NO_WAIT }
    const { wait } = place
    insert.run(
      job.id,
      seq,
      job.account,
      job.tier,
      job.model,
      place.status,
      place.turn,
      job.attempt,
      place.crashCount,
      job.cacheTtlS,
      job.inputTokens,
      job.callback === null ? 0 : 1,
      job.createdAtMs,
      place.claimedAtMs,
      place.settledAtMs,
      wait.route,
      wait.earlier,
      wait.sinceMs,
      wait.waitedMs,
    )
    request.run(seq, job.messages, job.responseFormat, job.callback)
    const bytes = requestBytes(job.messages, job.responseFormat, job.callback)
    if (state.kind === 'waits') {
      this.#quotas.add(job.account, 1, bytes)
      return
    }
    this.#quotas.add(job.account, 0, bytes + outcomeBytes(state.content, state.error, state.receipt))
    outcome.run(seq, state.content, state.error, state.usage, state.receipt)
    const owed = state.callback
    if (owed) callback.run(seq, job.id, job.account, ...CALLBACK_COLUMNS.map((name) => owed[name]))
  }

  async addCachedResponses(responses: readonly TransferredResponse[]): Promise<number> {
    let added = 0
    await each(responses, ({ jobId, fingerprint, untilMs }) => {
      added += Number(this.#statements.response.run(fingerprint, untilMs, jobId).changes)
    })
    return added
  }

  addIdempotencyKeys(keys: readonly TransferredIdempotencyKey[]): Promise<void> {
    const { idempotency } = this.#statements
    return each(keys, (k) => {
      idempotency.run(k.account, k.key, k.fingerprint, k.jobIds, k.untilMs)
    })
  }

  addUsage(usage: readonly UsageRecord[]): Promise<void> {
    return each(usage, (u) => {
      const sums = [u.jobs, u.failedJobs, u.cacheHits, u.calls, u.inputTokens, u.outputTokens] as const
      this.#statements.usage.run(u.account, u.month, u.model, ...sums)
    })
  }

  addAuditEntries(entries: readonly AuditEntry[]): Promise<void> {
    return each(entries, (a) => {
      this.#statements.auditEntry.run(
        a.id,
        a.atMs,
        a.who,
        a.what,
        a.account,
        a.target,
        a.detailsJson,
        a.outcome,
      )
    })
  }

  async commit(turn: number): Promise<void> {
    asProblem(() => {
      this.#statements.turn.run(turn)
      this.#quotas.write(this.#db)
      this.#db.exec(MARK_COUNTED)
      this.#db.exec('commit')
    })
  }

  async close(): Promise<void> {
    if (this.#db.isTransaction) this.#db.exec('rollback')
    this.#db.exec('pragma journal_mode = wal')
    this.#db.close()
    this.#lock.close()
  }
}

async function each<T>(rows: readonly T[], add: (row: T) => void): Promise<void> {
  asProblem(() => {
    for (const row of rows) add(row)
  })
}

function prepare(db: DatabaseSync) {
  const statement = (text: string): StatementSync => db.prepare(text)
  return {
    account: statement(
      `insert into accounts (name, tier, secret, previous_secret, rotated_at_ms, suspended_at_ms, cap_jobs, cap_tokens,
         cap_open_jobs, cap_stored_bytes)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    nextTurn: statement('insert or replace into turns (account, next_turn) values (?, ?)'),
    key: statement(
      `insert into keys (id, account, hash, created_at_ms, expires_at_ms, revoked_at_ms)
       values (?, ?, ?, ?, ?, ?)`,
    ),
    job: statement(
      `insert into jobs (id, seq, account, tier, model, status, turn, attempt, deaths, cache_ttl_s,
         input_tokens, has_callback, created_at_ms, claimed_at_ms, settled_at_ms,
         route, earlier, waits_since_ms, waited_ms)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    request: statement('insert into requests (seq, messages, response_format, callback) values (?, ?, ?, ?)'),
    outcome: statement('insert into outcomes (seq, content, error, usage, receipt) values (?, ?, ?, ?, ?)'),
    callback: statement(
      `insert into callbacks (seq, job_id, account, ${CALLBACK_COLUMNS.join(', ')})
       values (?, ?, ?, ${CALLBACK_COLUMNS.map(() => '?').join(', ')})`,
    ),
    response: statement(
      `insert into kept_answers (seq, fingerprint, until_ms)
       select seq, ?, ? from jobs where id = ? and settled_at_ms is not null`,
    ),
    idempotency: statement(
      'insert into idempotency (account, key, fingerprint, job_ids, until_ms) values (?, ?, ?, ?, ?)',
    ),
    usage: statement(
      `insert into usage (account, month, model, jobs, failed_jobs, cache_hits, calls, input_tokens, output_tokens)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    auditEntry: statement(
      'insert into audit (id, at_ms, who, what, account, target, details, outcome) values (?, ?, ?, ?, ?, ?, ?, ?)',
    ),
    turn: statement('update line set turn = ?'),
  }
}
