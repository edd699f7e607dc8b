/**
 * What the SQL that both stores run needs to know of each: where the databases speak differently, and where their tables differ.
 * A statement that is truly another in each store is in the file of the same name in both folders.
 */
import type { Status } from '../job/job.ts'
import type { CancelJobs, CancelledOutcome } from './admin-action-store.ts'
import type { BatchLine } from './batch-store.ts'
import type { Row } from './rows.ts'
import type { Sql, Steps, Value } from './sql.ts'

export interface Dialect {
  /** Jobs and callbacks in a chunk of a search: few enough not to delay other operations. */
  readonly chunkRows: number

  greatest(one: Sql, other: Sql): Sql

  /** A parameter whose type the statement does not tell: a job ID. */
  jobId(id: string): Sql

  /** The condition of an ID that it is one of these. */
  anyOf(jobIds: readonly string[]): Sql

  /** Selects these job IDs as `id`. */
  idsOf(jobIds: readonly string[]): Sql

  /** Selects `open_jobs`, `stored_bytes` and `reserved` of the account; no row stands for zeros. */
  quotaUseOf(account: Value): Sql

  /** Joins the same, as `q`, to rows of accounts, `a`. */
  readonly joinQuotaUse: Sql

  /** The condition of a text that it is one of these. */
  isOneOf(texts: readonly string[]): Sql

  /**
   * Selects rows of `idempotency`: for each account and the prefix in the same place, those whose key starts with the prefix.
   * Bounds of digits and letters: between those, keys of one length are in the same order in every collation. A few other
   * keys may be among them.
   */
  heldRequestsOf(accounts: readonly string[], prefixes: readonly string[], nowMs: number): Sql

  /** Selects these lines as `line`, `custom_id` and `job_id`. */
  linesOf(lines: readonly BatchLine[]): Sql

  /** Selects `node` of those that have a lease. */
  readonly liveNodes: Sql

  /** How many jobs of the account are queued or held, counted up to `MAX_OPEN_COUNTED` or more: an expression. */
  openJobsOf(account: Value): Sql

  /** Selects the sums of usage that meet the condition. */
  usage(condition: Sql): Sql

  /** A column of conversations or answers, whose texts may be compressed: `compressed-text.ts` reads it. */
  text(row: Sql, column: 'messages' | 'content'): Sql

  /** Where the text first has the part, from 1 on; 0 for nowhere. */
  placeIn(text: Sql, part: string): Sql

  /**
   * Joins to a row the job with that ID: `j`, its outcome `o` and callback `c`, of which all columns are null if there is none.
   * One by one: each join is a lookup by a key, whatever the planner estimates.
   */
  joinJob(id: Sql): Sql

  /** Columns of a joined job, which each store has in another table. */
  readonly job: {
    /** The row with its texts, and the one with its place in the queue. */
    readonly request: Sql
    readonly queued: Sql
    readonly status: Sql
    readonly claimedAtMs: Sql
    readonly settledAtMs: Sql
    readonly attempt: Sql
    readonly crashCount: Sql
  }

  /** Selects the columns of jobs that may have the status and meet the condition, where few others are. */
  jobsWith(status: Status | null, columns: Sql, condition: Sql): Sql

  /** Selects `job_id`, the columns, and `place` from the callbacks before that of the job, in descending order of `place`. */
  callbacksBefore(jobId: string, onlyFailed: boolean, columns: Sql): Sql

  /** The condition of rows of `callbacks` that are of the job. */
  isCallbackOf(jobId: string): Sql

  /** Selects the keys of callbacks `c` that failed, with their jobs `j`, and locks them; those that are locked already are left out. */
  failedCallbacks(condition: Sql, limit: number): Sql

  /** The key of `callbacks`, which `failedCallbacks` selects. */
  readonly callbackKey: Sql

  /** Selects the IDs of open jobs to cancel. */
  openJobs(which: CancelJobs, limit: number): Sql

  /** Selects `node`, `earlier` and `reserved` of a job, and locks it, unless it has ended. */
  lockOpenJob(jobId: string): Sql

  /** Settles open jobs that meet a condition of `id` and `turn`; returns how many there were. */
  cancel(condition: Sql, outcome: CancelledOutcome): Steps<number>

  /** Deletes ended jobs with all that belongs to them. @param rows with `id`, `settled_at_ms` and `claimed_at_ms` */
  deleteJobs(rows: readonly Row[]): Steps<void>
}
