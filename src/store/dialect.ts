/**
 * What the shared SQL needs to know about each database, because syntax and tables differ. If a whole statement differs, each
 * store has its own, in files of the same name.
 */
import type { Status } from '../job/job.ts'
import type { BatchLine } from './batch-store.ts'
import type { CancelJobs, CancelledOutcome } from './operator-store.ts'
import type { Row } from './rows.ts'
import type { Sql, Steps, Value } from './sql.ts'

export interface Dialect {
  /** How many jobs or callbacks one scan of a search reads: few enough not to delay other operations. */
  readonly chunkRows: number

  greatest(one: Sql, other: Sql): Sql

  /** A job ID as a parameter, for statements in which the database cannot infer its type. */
  jobId(id: string): Sql

  /** The condition that the column before it is one of these IDs, as in `id ${anyOf(ids)}`. */
  anyOf(jobIds: readonly string[]): Sql

  /** Selects these job IDs as `id`. */
  idsOf(jobIds: readonly string[]): Sql

  /** Selects `open_jobs`, `stored_bytes` and `reserved` of the account. An account without a row has none. */
  quotaUseOf(account: Value): Sql

  /** Joins the columns of `quotaUseOf`, as `q`, to rows of accounts `a`. */
  readonly joinQuotaUse: Sql

  /** The condition that the column before it is one of these texts. */
  isOneOf(texts: readonly string[]): Sql

  /**
   * Selects the rows of `idempotency` whose keys start with the prefix at the index of their account. It may also select a few
   * other keys: the characters that bound the range are letters and digits, because others sort differently in some collations.
   */
  heldRequestsOf(accounts: readonly string[], prefixes: readonly string[], nowMs: number): Sql

  /** Selects the two texts at each index, as two columns. */
  pairsOf(ones: readonly string[], others: readonly string[]): Sql

  /** Selects the lines, with the columns `line`, `custom_id` and `job_id`. */
  linesOf(lines: readonly BatchLine[]): Sql

  readonly liveNodes: Sql

  /** Counts the account's queued and held jobs. Counting may stop at `MAX_OPEN_COUNTED`. */
  openJobsOf(account: Value): Sql

  /** Selects the sums of usage (`USAGE_COLUMNS`) that meet the condition. */
  usage(condition: Sql): Sql

  /** A column with a text that may be compressed. Read it with `compressed-text.ts`. */
  text(row: Sql, column: 'messages' | 'content'): Sql

  /** The position of the first occurrence of the part in the text, starting at 1; 0 if there is none. */
  placeIn(text: Sql, part: string): Sql

  /**
   * Joins the job with that ID to a row: the job as `j`, its outcome as `o`, its callback as `c`. Columns of missing rows are
   * null. Each join is a lookup by key, whatever the planner estimates.
   */
  joinJob(id: Sql): Sql

  /** Columns of a joined job that are in different tables in the two stores. */
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
   * Selects columns of the jobs that meet the condition. The status `pending` or `assigned` only reduces the number of jobs to
   * read, so the caller must check the status of each job. Any other status has no effect.
   */
  jobsWith(status: Status | null, columns: Sql, condition: Sql): Sql

  /** Selects `job_id`, the columns, and `place` of the callbacks before that of the job, in descending order of `place`. */
  callbacksBefore(jobId: string, onlyFailed: boolean, columns: Sql): Sql

  /** The condition that a row of `callbacks` belongs to the job. */
  isCallbackOf(jobId: string): Sql

  /**
   * Selects and locks the keys of failed callbacks `c` with their jobs `j`. It skips callbacks that are locked, because another
   * replay is changing them.
   */
  failedCallbacks(condition: Sql, limit: number): Sql

  /** The key column of `callbacks`: the one that `failedCallbacks` selects. */
  readonly callbackKey: Sql

  openJobs(which: CancelJobs, limit: number): Sql

  /**
   * Locks the account. Writes that count what an account has, and then add to it, call this first, because two concurrent
   * writes could otherwise exceed a limit together. It must be a separate statement: a statement sees only what was committed
   * before it began.
   */
  lockAccount(account: string): Sql

  /** Selects and locks `node`, `earlier` and `reserved` of a job; no row if it has finished. */
  lockOpenJob(jobId: string): Sql

  /** Settles the open jobs that meet a condition on `id` and `turn`, and returns how many it settled. */
  cancel(condition: Sql, outcome: CancelledOutcome): Steps<number>

  /**
   * Deletes finished jobs with everything that belongs to them.
   * @param rows rows with `id`, `settled_at_ms` and `claimed_at_ms`
   */
  deleteJobs(rows: readonly Row[]): Steps<void>
}
