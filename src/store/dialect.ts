/**
 * What the shared SQL needs to know about each database: where syntax differs, and where tables differ. A statement that differs
 * altogether is in the file of the same name in both folders.
 */
import type { Status } from '../job/job.ts'
import type { CancelJobs, CancelledOutcome } from './admin-action-store.ts'
import type { BatchLine } from './batch-store.ts'
import type { Row } from './rows.ts'
import type { Sql, Steps, Value } from './sql.ts'

export interface Dialect {
  /** Jobs or callbacks in a chunk of a search: few enough not to delay other operations. */
  readonly chunkRows: number

  greatest(one: Sql, other: Sql): Sql

  /** A job ID as a parameter whose type the statement does not determine. */
  jobId(id: string): Sql

  /** The condition that an ID is one of these. */
  anyOf(jobIds: readonly string[]): Sql

  /** Selects these job IDs as `id`. */
  idsOf(jobIds: readonly string[]): Sql

  /** Selects `open_jobs`, `stored_bytes` and `reserved` of the account. No row means zeros. */
  quotaUseOf(account: Value): Sql

  /** Joins the same columns, as `q`, to rows of accounts `a`. */
  readonly joinQuotaUse: Sql

  /** The condition that a text is one of these. */
  isOneOf(texts: readonly string[]): Sql

  /**
   * Selects the rows of `idempotency` whose key starts with the prefix at the same index as its account. It may select a few
   * other keys, too, because the bounds use only letters and digits, which sort the same in every collation.
   */
  heldRequestsOf(accounts: readonly string[], prefixes: readonly string[], nowMs: number): Sql

  /** Selects the two texts at each index, as two columns. */
  pairsOf(ones: readonly string[], others: readonly string[]): Sql

  /** Selects these lines as `line`, `custom_id` and `job_id`. */
  linesOf(lines: readonly BatchLine[]): Sql

  /** Selects `node` of every node that has a lease. */
  readonly liveNodes: Sql

  /** An expression that counts the account's queued and held jobs, up to `MAX_OPEN_COUNTED` or more. */
  openJobsOf(account: Value): Sql

  /** Selects the sums of usage that meet the condition. */
  usage(condition: Sql): Sql

  /** A column of conversations or answers. `compressed-text.ts` reads it, because the text may be compressed. */
  text(row: Sql, column: 'messages' | 'content'): Sql

  /** The position of the first occurrence of the part in the text, from 1 on; 0 if there is none. */
  placeIn(text: Sql, part: string): Sql

  /**
   * Joins the job with that ID to a row: the job as `j`, its outcome as `o`, its callback as `c`; their columns are null if there
   * is none. Each join is a lookup by key, regardless of the planner's estimates.
   */
  joinJob(id: Sql): Sql

  /** Columns of a joined job that are in different tables in the two stores. */
  readonly job: {
    /** `request` is the row with the texts, `queued` the row with the place in the queue. */
    readonly request: Sql
    readonly queued: Sql
    readonly status: Sql
    readonly claimedAtMs: Sql
    readonly settledAtMs: Sql
    readonly attempt: Sql
    readonly crashCount: Sql
  }

  /** Selects columns of the jobs that meet the condition. It leaves out most jobs without the status, but not all. */
  jobsWith(status: Status | null, columns: Sql, condition: Sql): Sql

  /** Selects `job_id`, the columns, and `place` from the callbacks before that of the job, in descending order of `place`. */
  callbacksBefore(jobId: string, onlyFailed: boolean, columns: Sql): Sql

  /** The condition that a row of `callbacks` belongs to the job. */
  isCallbackOf(jobId: string): Sql

  /** Selects and locks the keys of failed callbacks `c` with their jobs `j`. Skips callbacks that are locked already. */
  failedCallbacks(condition: Sql, limit: number): Sql

  /** The key of `callbacks`, which `failedCallbacks` selects. */
  readonly callbackKey: Sql

  /** Selects the IDs of open jobs to cancel. */
  openJobs(which: CancelJobs, limit: number): Sql

  /**
   * Locks the account, so that writes that count what it has, and then add to it, wait for each other. Otherwise they would all
   * count the same, and together exceed a limit. It must be a statement of its own, because a statement sees only what was
   * committed before it began.
   */
  lockAccount(account: string): Sql

  /** Selects and locks `node`, `earlier` and `reserved` of a job; no row if it has finished. */
  lockOpenJob(jobId: string): Sql

  /** Settles the open jobs that meet a condition on `id` and `turn`. Returns how many. */
  cancel(condition: Sql, outcome: CancelledOutcome): Steps<number>

  /**
   * Deletes finished jobs with everything that belongs to them.
   * @param rows with `id`, `settled_at_ms` and `claimed_at_ms`
   */
  deleteJobs(rows: readonly Row[]): Steps<void>
}
