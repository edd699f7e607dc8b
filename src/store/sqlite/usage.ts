/**
 * What accounts have used, in SQLite. What a transaction settles is summed in memory and written once at its end, so that
 * a group of a thousand jobs of one account costs one row. Synchronous, inside the caller's transaction.
 */
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { Usage } from '../../job/job.ts'
import { monthOf } from '../../job/month.ts'
import {
  MAX_OPEN_COUNTED,
  type UsageKey,
  type UsageRecord,
  type UsageSearch,
  type Used,
} from '../usage-store.ts'

/** A job that has just ended. */
export interface EndedUse {
  readonly account: string
  readonly model: string
  readonly failed: boolean
  readonly usageJson: string
  readonly nowMs: number
}

type Sums = { -readonly [Name in keyof UsageRecord]: UsageRecord[Name] }

/** Where a sum of tokens stops: a model server may claim what it likes, and no job must fail to settle for it. */
const MOST = Number.MAX_SAFE_INTEGER

const COLUMNS = `account, month, model, jobs, failed_jobs as failedJobs, cache_hits as cacheHits, calls,
  input_tokens as inputTokens, output_tokens as outputTokens`

export class SqliteUsage {
  readonly #db: DatabaseSync
  readonly #add: StatementSync
  readonly #used: StatementSync
  readonly #open: StatementSync
  #pending = new Map<string, Sums>()

  constructor(db: DatabaseSync) {
    this.#db = db
    this.#add = db.prepare(
      `insert into usage (account, month, model, jobs, failed_jobs, cache_hits, calls, input_tokens, output_tokens)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?)
       on conflict do update set jobs = jobs + excluded.jobs, failed_jobs = failed_jobs + excluded.failed_jobs,
         cache_hits = cache_hits + excluded.cache_hits, calls = calls + excluded.calls,
         input_tokens = min(input_tokens + excluded.input_tokens, ${MOST}),
         output_tokens = min(output_tokens + excluded.output_tokens, ${MOST})`,
    )
    this.#used = db.prepare(
      `select coalesce(sum(jobs), 0) as jobs, total(input_tokens + output_tokens) as tokens
       from usage where account = ? and month = ?`,
    )
    this.#open = db.prepare(
      `select count(*) as open from (
         select 1 from jobs indexed by jobs_waiting_by_account where turn is not null and account = ?1
         union all select 1 from jobs indexed by jobs_held where node is not null and account = ?1
         limit ${MAX_OPEN_COUNTED})`,
    )
  }

  /** Counts a job. Nothing is written before `flush`. */
  note({ account, model, failed, usageJson, nowMs }: EndedUse): void {
    const usage = JSON.parse(usageJson) as Usage
    const sums = this.#sumsOf({ account, month: monthOf(nowMs), model })
    sums.jobs += 1
    if (failed) sums.failedJobs += 1
    if (usage.cache_hit) sums.cacheHits += 1
    sums.calls += usage.calls
    sums.inputTokens = Math.min(sums.inputTokens + usage.input_tokens, MOST)
    sums.outputTokens = Math.min(sums.outputTokens + usage.output_tokens, MOST)
  }

  /** Writes what was counted: the last thing in a transaction. */
  flush(): void {
    if (this.#pending.size === 0) return
    for (const sums of this.#pending.values()) {
      const { account, month, model, jobs, failedJobs, cacheHits, calls, inputTokens, outputTokens } = sums
      this.#add.run(account, month, model, jobs, failedJobs, cacheHits, calls, inputTokens, outputTokens)
    }
    this.#pending.clear()
  }

  /** Forgets what was counted in a transaction that was rolled back. */
  forget(): void {
    this.#pending.clear()
  }

  list({ account, month, after, limit }: UsageSearch): UsageRecord[] {
    const rows = this.#db
      .prepare(
        `select ${COLUMNS} from usage
         where (?1 is null or account = ?1) and (?2 is null or month = ?2)
           and (?3 is null or month < ?3 or (month = ?3 and (account, model) > (?4, ?5)))
         order by month desc, account, model limit ?6`,
      )
      .all(
        account ?? null,
        month ?? null,
        after?.month ?? null,
        after?.account ?? '',
        after?.model ?? '',
        limit,
      )
    return rows.map((row) => ({ ...row }) as unknown as UsageRecord)
  }

  used(account: string, month: string): Used {
    const sums = this.#used.get(account, month) ?? {}
    const openJobs = Number(this.#open.get(account)?.open)
    return { jobs: Number(sums.jobs), openJobs, tokens: Number(sums.tokens) }
  }

  #sumsOf(key: UsageKey): Sums {
    const name = `${key.month}\n${key.account}\n${key.model}`
    let sums = this.#pending.get(name)
    if (!sums) {
      sums = { ...key, jobs: 0, failedJobs: 0, cacheHits: 0, calls: 0, inputTokens: 0, outputTokens: 0 }
      this.#pending.set(name, sums)
    }
    return sums
  }
}
