/** Stores outcomes in Postgres, many in one statement, each only if the node still holds the job under the given attempt. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Row, textOf, textOrNull } from '../rows.ts'
import { type Settled, type Settlement, type Store, StoreUnavailable } from '../store.ts'
import { outcomeBytesOf } from '../stored-bytes.ts'
import { USAGE_COLUMNS } from '../usage.ts'
import {
  contentOf,
  SETTLEMENT_NAMES,
  SETTLEMENT_TYPES,
  settlementColumns,
  unnest,
  weightOfSettlement,
} from './columns.ts'
import { type Database, OutcomeUnknown, type Statement } from './database.ts'
import { MAX_WEIGHT, type PostgresParts } from './parts.ts'
import { openBytesOf, QUOTA_COLUMNS } from './quotas.ts'
import { hasLarge, storedTexts } from './texts.ts'
import { eachAlone } from './unknown-commit.ts'

/** `outcomes.node` is this if the job was overdue, so that no node settled it. A node cannot have this name. */
const NO_NODE = 'none'

interface SettledJob {
  readonly settled: Settled
  readonly origin: string | null
}

export function settleOperations(parts: PostgresParts): Pick<Store, 'settle'> {
  const { database, groups, notifications, others, onCommit } = parts
  /** The settlements of these jobs may be committed although their responses were lost. */
  const unknown = new Set<string>()
  const settlements = groups.add<Settlement, SettledJob>({
    ...(onCommit && { onCommit }),
    weight: { of: weightOfSettlement, max: MAX_WEIGHT },
    commit: (group) =>
      eachAlone(group, (some) =>
        settleOrMark(database, some, unknown, others.isKnownToAbsent('compressed_texts')),
      ),
  })
  return {
    settle: async (settlement) => {
      const { settled, origin } = await settlements.submit(settlement, { mayWaitMs: settlement.mayWaitMs })
      if (settled === 'settled') {
        if (origin !== null && origin !== settlement.node) notifications.settledFor(origin, settlement.jobId)
        notifications.ended(settlement.jobId)
      }
      return settled
    },
  }
}

/**
 * If the outcome of the commit is unknown, this rejects instead of repeating the statement, because the caller retries anyway.
 */
async function settleOrMark(
  database: Database,
  settlements: readonly Settlement[],
  unknown: Set<string>,
  compress: boolean,
): Promise<SettledJob[]> {
  try {
    const settled = await settleAll(database, settlements, unknown, compress)
    for (const { jobId } of settlements) unknown.delete(jobId)
    return settled
  } catch (error) {
    if (error instanceof OutcomeUnknown) for (const { jobId } of settlements) unknown.add(jobId)
    throw error
  }
}

/**
 * @param unknown jobs that an earlier try may have settled although its results were lost; if it did, their result is
 * `settled`. If the results of this try are lost too, the jobs that it settled are added
 */
async function settleAll(
  database: Database,
  settlements: readonly Settlement[],
  unknown: Set<string>,
  compress: boolean,
): Promise<SettledJob[]> {
  const [first] = settlements
  if (!first) return []
  const contents = await storedTexts(settlements.map(contentOf), compress)
  const columns = settlementColumns(settlements, contents)
  if (hasLarge(columns)) await nextTurn()
  const rows = await database.query(SETTLE, [first.node, ...columns])
  const freed = new Map(rows.map((row) => [row.id, row]))
  const others: Settlement[] = []
  for (const settlement of settlements) if (!freed.has(settlement.jobId)) others.push(settlement)
  let found: Row[] = []
  try {
    if (others.length > 0) {
      const ids = others.map(({ jobId }) => jobId)
      found = await database.query(NOT_FREED, [first.node, ids, others.map(({ attempt }) => attempt)])
    }
  } catch (error) {
    for (const row of rows) unknown.add(textOf(row, 'id'))
    throw new StoreUnavailable('The results of settlements were lost.', { cause: error })
  }
  const byId = new Map(found.map((row) => [row.id, row]))
  return settlements.map(({ jobId }) => {
    const row = freed.get(jobId)
    if (row !== undefined) return { settled: 'settled', origin: textOrNull(row, 'origin') }
    return resultOf(byId.get(jobId), unknown.has(jobId))
  })
}

function resultOf(row: Row | undefined, unknown: boolean): SettledJob {
  if (unknown && row?.before) return { settled: 'settled', origin: null }
  return { settled: row?.there ? 'stale' : 'gone', origin: null }
}

/** Usage is parsed only if it contains a cost, because most usage does not. */
const COST_IN_USAGE = `case when strpos(usage, '"cost":') > 0 then (usage::json ->> 'cost')::numeric end`

/**
 * Usage and quotas are added as new rows, so that no statement waits for another. The CTE `s` must have the settlements, and
 * `freed` the id, account, has_callback, deaths, claimed_at_ms, reserved, was_open (1 or 0), and the bytes of the request.
 */
export const STORE_OUTCOMES = (node: string) => `
  written as (
    insert into outcomes (id, status, content, error, usage, receipt, node, attempt, deaths, claimed_at_ms,
      settled_at_ms, counted, bytes, content_zstd, content_bytes)
    select id, status, content, error, usage, receipt, ${node}, attempt, deaths, claimed_at_ms, now_ms, true,
      bytes + ${outcomeBytesOf('s')}, content_zstd, content_bytes
    from s join freed using (id)
  ),
  owed as (
    insert into callbacks (job_id, account, owed_since_ms, due_at_ms)
    select id, account, now_ms, now_ms from s join freed using (id) where has_callback
  ),
  kept as (
    insert into kept_answers (fingerprint, job_id, kept_at_ms, until_ms)
    select fingerprint, id, now_ms, until_ms from s join freed using (id) where fingerprint is not null
  ),
  counted as (
    insert into usage_deltas (${USAGE_COLUMNS})
    select account, month, model, count(*), count(*) filter (where status = 'failed'),
      count(*) filter (where cache_hit), sum(calls), sum(input_tokens), sum(output_tokens), sum(${COST_IN_USAGE})
    from s join freed using (id) group by account, month, model
  ),
  counted_ended as (
    insert into quota_deltas (${QUOTA_COLUMNS})
    select account, hour_of_job(id), -sum(was_open), -sum(was_open * bytes), sum(bytes + ${outcomeBytesOf('s')}),
      -sum(was_open * coalesce(reserved, 0))
    from s join freed using (id) group by 1, 2
  )`

/**
 * $1 node, then the columns of settlements, IDs first.
 *
 * Most rows have no node, so the planner expects few rows with a given node. It would search by node, through every dead row of
 * this node. `is not distinct from` cannot use the index of nodes, which prevents that. `is true` makes the planner look up
 * claims in a hash, instead of scanning all of them for each job.
 */
export const SETTLE = {
  name: 'settle',
  text: `
  with s as (select * from ${unnest(SETTLEMENT_TYPES, 2)} as s(${SETTLEMENT_NAMES})),
  freed as (
    delete from open_jobs o
    where o.id = any ($2::uuid[]) and o.node is not distinct from $1
      and ((o.id, o.attempt) in (select id, attempt from s)) is true
    returning o.id, o.account, o.has_callback, o.deaths, o.claimed_at_ms, o.origin, o.reserved, ${openBytesOf('o')} as bytes, 1 as was_open
  ),
  ${STORE_OUTCOMES(`coalesce($1::text, '${NO_NODE}')`)}
  select id, origin from freed`,
}

/**
 * Tells whether jobs that were not freed exist, and whether this claim has settled them before. This is a separate statement,
 * because it opens every partition. With `limit 1`, the planner searches an index by ID.
 */
const NOT_FREED: Statement = {
  repeatable: true,
  name: 'not freed',
  text: `
  select u.id, (select true from jobs j where j.id = u.id limit 1) as there,
    (select o.node = $1 and o.attempt = u.attempt from outcomes o where o.id = u.id limit 1) as before
  from unnest($2::uuid[], $3::integer[]) as u(id, attempt)`,
}
