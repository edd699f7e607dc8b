/**
 * The SQL that differs between the databases, for statements that both stores share. If a whole statement differs, each store
 * has its own, in files of the same name.
 */
import type { Status } from '../job/job.ts'
import type { BatchLine } from './batch-store.ts'
import type { CancelJobs, CancelledOutcome } from './operator-store.ts'
import type { Row } from './rows.ts'
import type { Sql, Steps, Value } from './sql.ts'

export interface Dialect {
  /** One scan of a search reads at most this many jobs or callbacks: few enough not to delay other operations. */
  readonly chunkRows: number

  greatest(one: Sql, other: Sql): Sql

  /** The parameter has a type, for statements in which Postgres cannot infer it. */
  jobId(id: string): Sql

  /** The condition follows a column, as in `id ${anyOf(ids)}`. */
  anyOf(jobIds: readonly string[]): Sql

  idsOf(jobIds: readonly string[]): Sql

  /** Selects `open_jobs`, `stored_bytes` and `reserved`. If there is no row, all of them are 0. */
  quotaUseOf(account: Value): Sql

  /** Joins the columns of `quotaUseOf`, as `q`, to rows of accounts `a`. */
  readonly joinQuotaUse: Sql

  /** The condition follows a column, like `anyOf`. */
  isOneOf(texts: readonly string[]): Sql

  /**
   * Selects the rows of `idempotency` whose keys start with the prefix at the index of their account, and perhaps a few others:
   * the bounds of the range are letters and digits, because other characters sort differently in some collations.
   */
  heldRequestsOf(accounts: readonly string[], prefixes: readonly string[], nowMs: number): Sql

  pairsOf(ones: readonly string[], others: readonly string[]): Sql

  linesOf(lines: readonly BatchLine[]): Sql

  readonly liveNodes: Sql

  /** Queued and held jobs count. Counting may stop at `MAX_OPEN_COUNTED`. */
  openJobsOf(account: Value): Sql

  /** Selects `USAGE_COLUMNS`, summed by account, month and model. */
  usage(condition: Sql): Sql

  /** The text may be compressed, so read it with `compressed-text.ts`. */
  text(row: Sql, column: 'messages' | 'content'): Sql

  /** Returns the first position of the part, starting at 1; 0 if the text does not contain it. */
  placeIn(text: Sql, part: string): Sql

  /**
   * Joins a job as `j`, its outcome as `o`, and its callback as `c`. Without an outcome or callback, its columns are null;
   * without a job, there is no row. Each join is a lookup by key, whatever the planner estimates.
   */
  joinJob(id: Sql): Sql

  /** These columns are in different tables in the two stores. */
  readonly job: {
    /** `request` is the row with the texts, `queued` the row with the job's place in the queue. */
    readonly request: Sql
    readonly queued: Sql
    readonly status: Sql
    readonly claimedAtMs: Sql
    readonly settledAtMs: Sql
    readonly attempt: Sql
    readonly crashCount: Sql
  }

  /**
   * The status `pending` or `assigned` only reduces the number of jobs to read, so the caller must check each job. Any other
   * status has no effect.
   */
  jobsWith(status: Status | null, columns: Sql, condition: Sql): Sql

  /** Selects `job_id`, the columns, and `place`, in descending order of `place`. */
  callbacksBefore(jobId: string, onlyFailed: boolean, columns: Sql): Sql

  isCallbackOf(jobId: string): Sql

  /**
   * Selects the keys of failed callbacks `c`, joined to their jobs `j`. In Postgres, also locks the callbacks, and skips those
   * that another transaction has locked.
   */
  failedCallbacks(condition: Sql, limit: number): Sql

  readonly callbackKey: Sql

  openJobs(which: CancelJobs, limit: number): Sql

  /**
   * Writes that count what an account has, and then add to it, first lock the account. Otherwise two of them could exceed a
   * limit together. The lock must be a separate statement, because a statement sees only what was committed before it began.
   */
  lockAccount(account: string): Sql

  /** Locks the job, and selects its `node`, `earlier` and `reserved`; no row if the job has finished. */
  lockOpenJob(jobId: string): Sql

  /** Cancels the unfinished jobs that meet the condition, which may use `id` and `turn`. Returns how many. */
  cancel(condition: Sql, outcome: CancelledOutcome): Steps<number>

  /** @param rows must have `id`, `settled_at_ms` and `claimed_at_ms` */
  deleteJobs(rows: readonly Row[]): Steps<void>
}
