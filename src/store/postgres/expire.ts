/**
 * Ends what is over in Postgres: deletes expired data, as whole partitions if possible, and fails overdue jobs. Also adds the
 * deltas of usage and quotas to their sums.
 */
import { leastJobId } from '../../job/job-id.ts'
import { overdueResult } from '../../job/results-without-call.ts'
import { purgeBatches } from '../batches.ts'
import { BEFORE_ALL } from '../chunked-search.ts'
import { asItIs } from '../compressed-text.ts'
import { createdBefore, type Expiry } from '../expiry.ts'
import { fileOperations } from '../files.ts'
import { hasExpired } from '../job-rows.ts'
import { rerunOperations } from '../reruns.ts'
import { booleanOf, numberOf, type Row, textOf, textOrNull } from '../rows.ts'
import type { FailedJob, Overdue, PastPatience, Settlement, Store } from '../store.ts'
import { forgetCancelled } from './cancel.ts'
import { contentOf, settlementColumns } from './columns.ts'
import { type Database, methodsOn, type Queries, queryOf, type Statement } from './database.ts'
import { POSTGRES } from './dialect.ts'
import { isInLane, isOnRoute } from './fair-order.ts'
import { forgetCrashes } from './nodes.ts'
import { ALLOW_BITMAPS, keepPartitions } from './partitions.ts'
import type { PostgresParts } from './parts.ts'
import { deleteRows, foldQuotas, foldUsage, reconcileOpenJobs } from './quotas.ts'
import { SETTLE } from './settle.ts'

/** One step examines at most this many rows of each kind, so that it does not delay other work. */
const STEP = 400
const PARTITIONS_EVERY_MS = 60_000
/** The sums of quotas are reconciled this rarely, because it takes half a second for a million open jobs. */
const QUOTAS_EVERY_MS = 600_000

export function expireOperations({ database }: PostgresParts): Pick<Store, 'expire'> {
  /** The last examined job of the default partition, so that a round examines each job only once. */
  let cursor = BEFORE_ALL
  let partitionsDueMs = 0
  let quotasDueMs = 0
  const files = methodsOn(database, { ...fileOperations(POSTGRES), purgeBatches })
  const { forgetReruns } = methodsOn(database, rerunOperations(POSTGRES))
  return {
    expire: async (expiry) => {
      if (performance.now() >= partitionsDueMs) {
        partitionsDueMs = performance.now() + PARTITIONS_EVERY_MS
        await keepPartitions(database, expiry)
      }
      const responses = await database.transaction(async ({ query }) => {
        await query(ALLOW_BITMAPS)
        return query(DELETE_RESPONSES, [expiry.nowMs, STEP])
      })
      const keys = await database.query(DELETE_KEYS, [expiry.nowMs, STEP])
      const jobs = await deleteJobs(database, expiry, cursor)
      cursor = jobs.cursor
      await forgetCancelled(database, expiry.nowMs)
      await forgetCrashes(database, STEP)
      await files.purgeBatches(expiry.nowMs)
      const hasMoreFiles = await files.purgeFiles(expiry.nowMs)
      const hasMoreReruns = await forgetReruns(expiry)
      if (performance.now() >= quotasDueMs) {
        quotasDueMs = performance.now() + QUOTAS_EVERY_MS
        await reconcileOpenJobs(database)
      }
      const hasMoreUsage = await foldUsage(database)
      if ((await foldQuotas(database)) || hasMoreUsage || hasMoreFiles || hasMoreReruns) return true
      return responses.length >= STEP || keys.length >= STEP || jobs.scanned >= STEP
    },
  }
}

async function deleteJobs(
  database: Database,
  expiry: Expiry,
  cursor: string,
): Promise<{ scanned: number; cursor: string }> {
  const before = leastJobId(expiry.nowMs - expiry.retentionMs)
  const rows = await database.query(OLD_JOBS, [cursor, before, STEP])
  const expired = rows.filter((row) => hasExpired(row, expiry)).map((row) => textOf(row, 'id'))
  if (expired.length > 0) await queryOf(database.repeatable, deleteRows(expired))
  const last = rows.at(-1)
  return { scanned: rows.length, cursor: last && rows.length === STEP ? textOf(last, 'id') : BEFORE_ALL }
}

const DELETE_RESPONSES: Statement = {
  repeatable: true,
  name: 'delete responses',
  text: `delete from kept_answers where ctid = any(array(
      select ctid from kept_answers where until_ms <= $1::bigint limit $2::bigint
    )) returning 1`,
}
const DELETE_KEYS: Statement = {
  repeatable: true,
  name: 'delete idempotency keys',
  // Skips locked rows, because an acceptance may lock several keys in another order, and waiting for it could deadlock.
  text: `delete from idempotency where (account, key) in (
      select account, key from idempotency where until_ms <= $1::bigint order by until_ms limit $2::bigint
      for update skip locked
    ) returning 1`,
}
const OLD_JOBS: Statement = {
  repeatable: true,
  name: 'old jobs',
  text: `
  select j.id, j.cache_ttl_s, o.settled_at_ms, c.due_at_ms
  from jobs_default j left join outcomes o on o.id = j.id left join callbacks c on c.job_id = j.id
  where j.id > $1::uuid and j.id < $2::uuid
    and not exists (select 1 from batch_lines l where l.job_id = j.id::text)
  order by j.id limit $3::bigint`,
}

export function overdueOperations({ database, notifications }: PostgresParts): Pick<Store, 'failOverdue'> {
  return {
    failOverdue: async (overdue, nowMs, limit) => {
      const rows = await database.transaction((queries) =>
        failAll(queries, overdue, Math.floor(nowMs), limit),
      )
      for (const row of rows) {
        const origin = textOrNull(row, 'origin')
        if (origin !== null) notifications.settledFor(origin, textOf(row, 'id'))
        notifications.ended(textOf(row, 'id'))
      }
      return rows.map(failedJob)
    },
  }
}

async function failAll({ query }: Queries, overdue: Overdue, nowMs: number, limit: number): Promise<Row[]> {
  const { error } = overdue
  const rows =
    overdue.route === null
      ? await query(LOCK_LATE, [nowMs, limit])
      : await query(
          overdue.account === null ? LOCK_OVERDUE : LOCK_OVERDUE_OF_ACCOUNT,
          valuesOf(overdue, nowMs, limit),
        )
  if (rows.length === 0) return []
  const settlements = rows.map(
    (row): Settlement => ({
      node: '',
      jobId: textOf(row, 'id'),
      attempt: numberOf(row, 'attempt'),
      model: textOf(row, 'model'),
      outcome: { status: 'failed', error },
      ...overdueResult(textOrNull(row, 'earlier'), row.reserved !== null),
      cache: null,
      nowMs,
    }),
  )
  await query(SETTLE, [null, ...settlementColumns(settlements, settlements.map(contentOf).map(asItIs))])
  return rows
}

/** The values are in the order of the parameters of `lockOverdue`. */
function valuesOf(overdue: PastPatience, nowMs: number, limit: number): unknown[] {
  const { route, account, unavailableSinceMs, patienceMs } = overdue
  const times = [Math.floor(unavailableSinceMs), Math.floor(nowMs - patienceMs)]
  return [route, account, limit, ...times, createdBefore(overdue, nowMs)]
}

function failedJob(row: Row): FailedJob {
  return {
    jobId: textOf(row, 'id'),
    account: textOf(row, 'account'),
    model: textOf(row, 'model'),
    createdAtMs: numberOf(row, 'created_at_ms'),
    hasCallback: booleanOf(row, 'has_callback'),
    usage: overdueResult(textOrNull(row, 'earlier'), row.reserved !== null).usage,
  }
}

const OF_PICKED = `
  select p.*, j.model, j.created_at_ms
  from picked p cross join lateral (select model, created_at_ms from jobs where id = p.id limit 1) j`

/**
 * The offset or limit in `inOrder` makes the planner read the jobs in that order. Otherwise it might use another index, such as
 * that of all IDs, in which old jobs of other routes may come first.
 */
const locked = (inOrder: string, condition: string) => `
    select o.* from (select id from open_jobs where ${inOrder}) q cross join lateral (
      select id, account, attempt, has_callback, origin, earlier, reserved from open_jobs
      where id = q.id and turn is not null and route = $1 and account = coalesce($2, account) and ${condition}
      limit 1 for update skip locked
    ) o limit $3::bigint`

/**
 * $1 route, $2 account or null for all, $3 limit, $4 since when the route has been unavailable, $5 the time before which a wait
 * must have begun, $6 the ID before which a job without a stored wait must have been created. Only jobs that were released to
 * wait, or have waited for budget, have a stored wait.
 * @param untried statements that select jobs without a stored wait
 */
const lockOverdue = (name: string, ...untried: readonly string[]): Statement => ({
  name,
  text: `
  with tried as (${locked('turn is not null and waits_since_ms is not null order by id offset 0', 'greatest(waits_since_ms, $4::bigint) - waited_ms <= $5::bigint')}),
  ${untried.map((select, at) => `untried${at} as (${select}),`).join('\n  ')}
  picked as (select * from tried ${untried.map((_, at) => `union all select * from untried${at}`).join(' ')} limit $3::bigint)
  ${OF_PICKED}`,
})
const OLD = 'id < $6::uuid'
const UNTRIED = 'waits_since_ms is null'
export const LOCK_OVERDUE = lockOverdue(
  'lock overdue',
  locked(`${isOnRoute('$1')} and ${OLD} order by route, turn, id offset 0`, UNTRIED),
)
/** The index of lanes does not contain suspects, so two indexes are needed. */
export const LOCK_OVERDUE_OF_ACCOUNT = lockOverdue(
  'lock overdue of account',
  locked(
    `${isInLane('$2', '$1')} and ${UNTRIED} and ${OLD} order by account, turn, id limit $3::bigint`,
    UNTRIED,
  ),
  locked('turn is not null and deaths > 0 order by deaths, turn, id offset 0', `${UNTRIED} and ${OLD}`),
)

const LOCK_LATE: Statement = {
  name: 'lock late',
  text: `
  with picked as (
    select id, account, attempt, has_callback, origin, earlier, reserved from open_jobs
    where turn is not null and deadline_ms is not null and deadline_ms <= $1::bigint
    order by deadline_ms limit $2::bigint for update skip locked
  )
  ${OF_PICKED}`,
}
