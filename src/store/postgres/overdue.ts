/** Fails queued jobs in Postgres that have waited too long for model servers, or whose deadline has passed. */
import { overdueResult } from '../../job/results-without-call.ts'
import { asItIs } from '../compressed-text.ts'
import { createdBefore } from '../expiry.ts'
import { booleanOf, numberOf, type Row, textOf, textOrNull } from '../rows.ts'
import type { FailedJob, Overdue, PastPatience, Settlement, Store } from '../store.ts'
import { contentOf, settlementColumns } from './columns.ts'
import type { Queries, Statement } from './database.ts'
import { isInLane, isOnRoute } from './fair-order.ts'
import type { PostgresParts } from './parts.ts'
import { SETTLE } from './settle.ts'

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
