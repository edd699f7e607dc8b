/**
 * The usage of accounts in Postgres: sums, and the deltas that settling writes next to them. Each read adds both up in one
 * statement, which sees a fold as complete or as not begun.
 */
import { numberOf } from '../rows.ts'
import { readUsage, USAGE_COLUMNS } from '../usage-rows.ts'
import { MAX_OPEN_COUNTED, type UsageStore } from '../usage-store.ts'
import type { Database, Statement } from './database.ts'

/** Deltas that one step folds. */
const STEP = 10_000

export function usageOperations(database: Database): Omit<UsageStore, 'quotaUse'> {
  return {
    listUsage: async ({ account, month, after, limit }) => {
      const key = [after?.account ?? null, after?.month ?? null, after?.model ?? null]
      const rows = await database.query(LIST, [account ?? null, month ?? null, ...key, limit])
      return rows.map(readUsage)
    },

    used: async (account, month) => {
      const [row = {}] = await database.query(USED, [account, month])
      return {
        jobs: numberOf(row, 'jobs'),
        openJobs: Math.min(numberOf(row, 'waiting') + numberOf(row, 'held'), MAX_OPEN_COUNTED),
        tokens: numberOf(row, 'tokens'),
      }
    },
  }
}

/** Folds some deltas into the sums, unless another node is doing so; returns whether more may be left. */
export async function foldUsage(database: Database): Promise<boolean> {
  const [row] = await database.query(FOLD)
  return Number(row?.folded) >= STEP
}

/** Waits for a fold that is running and prevents the next, until the end of the transaction. */
export const LOCK_USAGE: Statement = {
  name: 'lock usage',
  text: `select pg_advisory_xact_lock(hashtextextended('usage of ' || current_schema(), 0))`,
}

/** @param condition of rows of either table */
export function sumsOfUsage(condition: string): string {
  return `
  select account, month, model, sum(jobs) as jobs, sum(failed_jobs) as failed_jobs, sum(cache_hits) as cache_hits,
    sum(calls) as calls, sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens
  from (
    select ${USAGE_COLUMNS} from usage where ${condition}
    union all select ${USAGE_COLUMNS} from usage_deltas where ${condition}
  ) u group by account, month, model`
}

/** $1 account, $2 month, $3 to $5 after which account, month and model, $6 limit. */
const LIST: Statement = {
  repeatable: true,
  name: 'list usage',
  text: `${sumsOfUsage(`($1::text is null or account = $1) and ($2::text is null or month = $2)
      and ($4::text is null or month < $4 or (month = $4 and (account, model) > ($3::text, $5::text)))`)}
    order by month desc, account, model limit $6::bigint`,
}
/** $1 account, $2 month. Held jobs are few compared with those that may wait. */
const USED: Statement = {
  repeatable: true,
  name: 'used',
  text: `
  with u as (
    select jobs, input_tokens + output_tokens as tokens from usage where account = $1 and month = $2
    union all
    select jobs, input_tokens + output_tokens from usage_deltas where account = $1 and month = $2
  )
  select (select coalesce(sum(jobs), 0) from u) as jobs, (select coalesce(sum(tokens), 0) from u) as tokens,
    (select count(*) from (
      select 1 from open_jobs where account = $1 and turn is not null limit ${MAX_OPEN_COUNTED}
    ) w) as waiting,
    (select count(*) from open_jobs where node is not null and account = $1) as held`,
}
/**
 * One statement, so that nobody sees a delta in both places or in none. Should two meet all the same, each delta is deleted
 * by one of them only. In the order of the key, so that no two wait for each other.
 */
const FOLD: Statement = {
  repeatable: true,
  name: 'fold usage',
  text: `
  with turn as materialized (
    select pg_try_advisory_xact_lock(hashtextextended('usage of ' || current_schema(), 0)) as mine
  ),
  gone as (
    delete from usage_deltas where ctid = any (array (
      select ctid from usage_deltas where (select mine from turn) limit ${STEP}
    )) returning ${USAGE_COLUMNS}
  ),
  folded as (
    insert into usage as u (${USAGE_COLUMNS})
    select account, month, model, sum(jobs), sum(failed_jobs), sum(cache_hits), sum(calls), sum(input_tokens),
      sum(output_tokens)
    from gone group by account, month, model order by account, month, model
    on conflict (account, month, model) do update set
      jobs = u.jobs + excluded.jobs, failed_jobs = u.failed_jobs + excluded.failed_jobs,
      cache_hits = u.cache_hits + excluded.cache_hits, calls = u.calls + excluded.calls,
      input_tokens = u.input_tokens + excluded.input_tokens, output_tokens = u.output_tokens + excluded.output_tokens
  )
  select count(*) as folded from gone`,
}
