/**
 * Sums the usage and the changes of quotas in memory until the end of a transaction. So a group of a thousand jobs of one
 * account and model changes only two rows.
 */
import type { DatabaseSync } from 'node:sqlite'
import { MAX_COST, sumOfCosts } from '../../job/amount.ts'
import type { Usage } from '../../job/job.ts'
import { monthOf } from '../../job/month.ts'
import { outcomeBytesOf, requestBytesOf } from '../stored-bytes.ts'
import type { UsageKey, UsageRecord } from '../usage-store.ts'
import { places, type ValuesOf } from './inserts.ts'

type Statements = Pick<DatabaseSync, 'prepare'>

interface EndedUse {
  readonly account: string
  readonly model: string
  readonly failed: boolean
  readonly usageJson: string
  readonly nowMs: number
}

type Sums = { -readonly [Name in keyof UsageRecord]: UsageRecord[Name] }

/**
 * Limits a sum of tokens to what a column can store. A model server may report any number, and no number may prevent a
 * settlement.
 */
export const MAX_TOKENS = Number.MAX_SAFE_INTEGER

export class UsageSums {
  readonly #sums = new Map<string, Sums>()

  add({ account, model, failed, usageJson, nowMs }: EndedUse): void {
    const usage: Usage = JSON.parse(usageJson)
    const sums = this.#sumsOf({ account, month: monthOf(nowMs), model })
    sums.jobs += 1
    if (failed) sums.failedJobs += 1
    if (usage.cache_hit) sums.cacheHits += 1
    sums.calls += usage.calls
    sums.inputTokens = Math.min(sums.inputTokens + usage.input_tokens, MAX_TOKENS)
    sums.outputTokens = Math.min(sums.outputTokens + usage.output_tokens, MAX_TOKENS)
    if (usage.cost !== undefined) sums.cost = sumOfCosts(sums.cost ?? 0, usage.cost)
  }

  /** Returns the cost of the account's finished jobs in the month, including sums that are not written yet. */
  costOf(file: Statements, account: string, month: string): number {
    let cost = Number(file.prepare(COST_OF_MONTH).get(account, month)?.cost ?? 0)
    for (const sums of this.#sums.values()) {
      if (sums.account === account && sums.month === month) cost += sums.cost ?? 0
    }
    return cost
  }

  /** Call this at the end of each transaction, because usage that is added later would not be written. */
  write(file: Statements): void {
    if (this.#sums.size === 0) return
    for (const sums of this.#sums.values()) {
      const { account, month, model, jobs, failedJobs, cacheHits, calls, inputTokens, outputTokens, cost } =
        sums
      const counts = [jobs, failedJobs, cacheHits, calls, inputTokens, outputTokens] as const
      const values: ValuesOf<typeof USAGE_COLUMNS> = [account, month, model, ...counts, cost ?? null]
      file.prepare(ADD_USAGE).run(...values)
    }
    this.#sums.clear()
  }

  forget(): void {
    this.#sums.clear()
  }

  #sumsOf(key: UsageKey): Sums {
    const name = `${key.month}\n${key.account}\n${key.model}`
    let sums = this.#sums.get(name)
    if (!sums) {
      sums = { ...key, jobs: 0, failedJobs: 0, cacheHits: 0, calls: 0, inputTokens: 0, outputTokens: 0 }
      this.#sums.set(name, sums)
    }
    return sums
  }
}

const USAGE_COLUMNS = [
  ...(['account', 'month', 'model', 'jobs', 'failed_jobs', 'cache_hits', 'calls'] as const),
  ...(['input_tokens', 'output_tokens', 'cost'] as const),
] as const
export const ADD_TO_USAGE = {
  insert: `insert into usage (${USAGE_COLUMNS.join(', ')})`,
  onConflict: `on conflict do update set jobs = jobs + excluded.jobs, failed_jobs = failed_jobs + excluded.failed_jobs,
    cache_hits = cache_hits + excluded.cache_hits, calls = calls + excluded.calls,
    input_tokens = min(input_tokens + excluded.input_tokens, ${MAX_TOKENS}),
    output_tokens = min(output_tokens + excluded.output_tokens, ${MAX_TOKENS}),
    cost = case when excluded.cost is null then cost else min(ifnull(cost, 0) + excluded.cost, ${MAX_COST}) end`,
}
/** `total` returns a float. An integer could overflow, because this adds up all models. */
const COST_OF_MONTH = 'select total(cost) as cost from usage where account = ? and month = ?'
const ADD_USAGE = `${ADD_TO_USAGE.insert} values (${places(USAGE_COLUMNS)}) ${ADD_TO_USAGE.onConflict}`

interface Change {
  openJobs: number
  bytes: number
  reserved: number
}

export class QuotaSums {
  readonly #changes = new Map<string, Change>()

  /** @param openJobs 1 for an accepted job, -1 for a finished one, otherwise 0 */
  add(account: string, openJobs: number, bytes: number, reserved: number): void {
    const change = this.#changes.get(account)
    if (change === undefined) this.#changes.set(account, { openJobs, bytes, reserved })
    else {
      change.openJobs += openJobs
      change.bytes += bytes
      change.reserved += reserved
    }
  }

  /** Returns the number of open jobs of all accounts, including changes that are not written yet. */
  openJobs(file: Statements): number {
    let open = Number(file.prepare(OPEN_JOBS).get()?.open_jobs ?? 0)
    for (const { openJobs } of this.#changes.values()) open += openJobs
    return open
  }

  /** Returns the reserved cost of the account's open jobs, including changes that are not written yet. */
  reservedOf(file: Statements, account: string): number {
    const written = Number(file.prepare(RESERVED).get(account)?.reserved ?? 0)
    return Math.max(0, written + (this.#changes.get(account)?.reserved ?? 0))
  }

  /** Call this at the end of each transaction, because changes that are added later would not be written. */
  write(file: Statements): void {
    if (this.#changes.size === 0) return
    for (const [account, { openJobs, bytes, reserved }] of this.#changes) {
      file.prepare(ADD_QUOTAS).run(account, openJobs, bytes, reserved)
    }
    this.#changes.clear()
  }

  forget(): void {
    this.#changes.clear()
  }
}

/**
 * Counts the jobs that versions without quotas have stored, when a server first starts on such a file. The migration does not
 * count them, because a command may apply it while such a version still uses the file.
 */
export function countOnce(db: DatabaseSync): void {
  if (db.prepare('select counted from quota_state').get()?.counted === 1) return
  db.exec(`begin immediate; ${COUNT}; commit`)
}

/**
 * Corrects the reserved sums when a server starts, because a server of version 0.3 may have finished jobs without updating
 * them. If nothing is reserved, this reads only the sums.
 */
export function correctReserved(db: DatabaseSync): void {
  if (db.prepare('select 1 from quota_sums where reserved <> 0 limit 1').get() === undefined) return
  db.exec(`begin immediate; ${CORRECT_RESERVED}; commit`)
}

const CORRECT_RESERVED = `
  update quota_sums set reserved = 0 where reserved <> 0;
  insert into quota_sums (account, open_jobs, stored_bytes, reserved)
  select account, 0, 0, sum(reserved) from (
    select account, reserved from jobs indexed by jobs_by_age where turn is not null
    union all select account, reserved from jobs indexed by jobs_held where node is not null
  ) where reserved is not null group by account
  on conflict do update set reserved = excluded.reserved`

export const ADD_TO_QUOTAS = {
  insert: 'insert into quota_sums (account, open_jobs, stored_bytes, reserved)',
  onConflict: `on conflict do update set open_jobs = open_jobs + excluded.open_jobs,
    stored_bytes = stored_bytes + excluded.stored_bytes, reserved = reserved + excluded.reserved`,
}
const ADD_QUOTAS = `${ADD_TO_QUOTAS.insert} values (?, ?, ?, ?) ${ADD_TO_QUOTAS.onConflict}`
const RESERVED = 'select reserved from quota_sums where account = ?'
const OPEN_JOBS = 'select sum(open_jobs) as open_jobs from quota_sums'
/** The last statement records that the sums are complete, so that later starts do not count again. */
export const COUNT = `
  delete from quota_sums;
  insert into quota_sums (account, open_jobs, stored_bytes, reserved)
  select j.account, sum(j.settled_at_ms is null), sum(${requestBytesOf('r')} + ${outcomeBytesOf('o')}),
    sum(case when j.settled_at_ms is null then ifnull(j.reserved, 0) else 0 end)
  from jobs j cross join requests r on r.seq = j.seq left join outcomes o on o.seq = j.seq
  group by j.account;
  update quota_state set counted = 1`
