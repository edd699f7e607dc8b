/**
 * Pending callbacks in Postgres, including those that report the end of a batch. Concurrent loads share statements, and so do
 * concurrent records.
 */
import type { BatchReport } from '../batch-store.ts'
import { advanceBatch } from '../batches.ts'
import {
  attemptLine,
  readCallbackBody,
  readDueCallback,
  recordCells,
  URL_PREFIX,
} from '../callback-records.ts'
import {
  type AttemptRecord,
  BODY_READ_BYTES,
  type CallbackBody,
  type CallbackRecords,
  type CallbackStore,
  type CallbackToLoad,
  DELIVERY_QUEUES,
  MAX_ATTEMPTS_LENGTH,
} from '../callback-store.ts'
import { NO_MODEL } from '../job-rows.ts'
import { numberOf, textOf } from '../rows.ts'
import { raw, type Steps, sql } from '../sql.ts'
import { requestBytes, resultBytesOf } from '../stored-bytes.ts'
import { unnest } from './columns.ts'
import type { Database, Statement } from './database.ts'
import { POSTGRES } from './dialect.ts'
import type { PostgresParts } from './parts.ts'
import { QUOTA_COLUMNS } from './quotas.ts'
import { textOf as textOfColumn } from './texts.ts'
import { eachAlone } from './unknown-commit.ts'

export function callbackOperations({
  database,
  groups,
}: PostgresParts): Omit<CallbackStore, keyof CallbackRecords | 'callbackDepth'> {
  const records = groups.add<AttemptRecord, boolean>({
    commit: (group) => eachAlone(group, (some) => recordAll(database, some)),
  })
  const bodies = groups.add<CallbackToLoad, CallbackBody | null>({
    weight: { of: ({ bodyBytes }) => bodyBytes, max: BODY_READ_BYTES },
    commit: (group) => eachAlone(group, (some) => loadAll(database, some)),
  })
  return {
    takeCallbacks: async ({ node, queue, limit, nowMs, leaseUntilMs }) => {
      const values = [node, DELIVERY_QUEUES.indexOf(queue), limit, nowMs, leaseUntilMs]
      return (await database.query(TAKE, values)).map(readDueCallback)
    },

    takeDeferred: async ({ node, deferred, leaseUntilMs }) => {
      const ids = deferred.map(({ jobId }) => jobId)
      const attempts = deferred.map(({ attempts }) => attempts)
      const rows = await database.query(TAKE_DEFERRED, [node, ids, attempts, leaseUntilMs])
      const taken = new Map(rows.map(readDueCallback).map((due) => [due.jobId, due]))
      // `update … returning` returns rows in any order.
      return ids.flatMap((jobId) => taken.get(jobId) ?? [])
    },

    loadCallback: (callback) => bodies.submit(callback),

    recordCallback: (record) => records.submit(record),

    deferCallbacks: async (node, deferred) => {
      await database.query(DEFER, [
        node,
        deferred.map(({ jobId }) => jobId),
        deferred.map(({ attempt }) => attempt),
        deferred.map(({ dueAtMs }) => dueAtMs),
      ])
    },
  }
}

async function loadAll(
  database: Database,
  callbacks: readonly CallbackToLoad[],
): Promise<(CallbackBody | null)[]> {
  const rows = await database.query(LOAD, [
    callbacks.map(({ jobId }) => jobId),
    callbacks.map(({ attempt }) => attempt),
  ])
  const bodies = new Map(rows.map((row) => [keyOf(textOf(row, 'id'), numberOf(row, 'attempt')), row]))
  return callbacks.map(({ jobId, attempt }) => {
    const row = bodies.get(keyOf(jobId, attempt))
    return row ? readCallbackBody(row) : null
  })
}

async function recordAll(database: Database, records: readonly AttemptRecord[]): Promise<boolean[]> {
  const cells = records.map(recordCells)
  const rows = await database.query(RECORD, [
    records.map(({ jobId }) => jobId),
    records.map(({ attempt }) => attempt.attempt),
    records.map(({ attempt }) => attemptLine(attempt)),
    cells.map(({ dueAtMs }) => dueAtMs),
    cells.map(({ deliveredAtMs }) => deliveredAtMs),
    cells.map(({ failedAtMs }) => failedAtMs),
    cells.map(({ uncounted }) => uncounted),
  ])
  const recorded = new Set(rows.map((row) => keyOf(textOf(row, 'job_id'), numberOf(row, 'attempt'))))
  return records.map(({ jobId, attempt }) => recorded.has(keyOf(jobId, attempt.attempt)))
}

function keyOf(jobId: string, attempt: number): string {
  return `${jobId} ${attempt}`
}

/** Postgres reads the lengths and the beginning without reading whole texts. */
const SELECT_TAKEN = `
  select t.*, left(j.callback, ${URL_PREFIX}) as callback_prefix,
    octet_length(j.callback) + ${resultBytesOf('o')} as body_bytes
  from taken t join jobs j on j.id = t.job_id join outcomes o on o.id = t.job_id`

/**
 * $1 node, $2 delivery queue, $3 limit, $4 the current time, $5 the end of the lease. Callbacks that another node has taken
 * stay with that node until it is rescued, even if the clocks of nodes differ.
 */
const TAKE = {
  name: 'take callbacks',
  text: `
  with due as (
    select job_id from callbacks
    where lane = $2::integer and due_at_ms <= $4::bigint and (node is null or node = $1)
    order by due_at_ms limit $3::bigint for update skip locked
  ),
  taken as (
    update callbacks c set attempt = c.attempt + 1, tries = c.tries + 1, node = $1, under_way = true, due_at_ms = $5::bigint
    from due where c.job_id = due.job_id
    returning c.job_id, c.account, c.attempt, c.tries, c.owed_since_ms
  )
  ${SELECT_TAKEN}`,
}
/** $1 node, $2 IDs, $3 their attempts so far, $4 the end of the lease. */
const TAKE_DEFERRED = {
  name: 'take deferred callbacks',
  text: `
  with found as (
    select c.job_id from callbacks c
    join unnest($2::uuid[], $3::integer[]) as p(job_id, attempts) on c.job_id = p.job_id and c.attempt = p.attempts
    where c.due_at_ms is not null and not c.under_way and (c.node is null or c.node = $1)
    order by c.job_id for update of c skip locked
  ),
  taken as (
    update callbacks c set attempt = c.attempt + 1, tries = c.tries + 1, node = $1, under_way = true, due_at_ms = $4::bigint
    from found where c.job_id = found.job_id
    returning c.job_id, c.account, c.attempt, c.tries, c.owed_since_ms
  )
  ${SELECT_TAKEN}`,
}
const LOAD: Statement = {
  repeatable: true,
  name: 'load callbacks',
  text: `
  select j.id, t.attempt, j.callback, j.created_at_ms, o.status, o.settled_at_ms, ${textOfColumn('o', 'content')} as content, o.error, o.usage,
    a.secret, a.previous_secret, a.rotated_at_ms
  from unnest($1::uuid[], $2::integer[]) as t(job_id, attempt)
  join callbacks c on c.job_id = t.job_id and c.attempt = t.attempt and c.due_at_ms is not null and c.under_way
  join jobs j on j.id = t.job_id join outcomes o on o.id = t.job_id left join accounts a on a.name = c.account`,
}
/**
 * A record that the caller repeats because the response was lost changes nothing: the attempt is already the last line of the
 * log.
 */
const RECORD = {
  name: 'record callbacks',
  text: `
  update callbacks c set due_at_ms = r.due_at_ms, delivered_at_ms = r.delivered_at_ms, failed_at_ms = r.failed_at_ms,
    node = null, under_way = false, tries = c.tries - r.uncounted,
    lane = case when r.due_at_ms is null then c.lane else 1 end,
    attempts = case when length(c.attempts) > ${MAX_ATTEMPTS_LENGTH}
      then substr(c.attempts, position(E'\\n' in c.attempts) + 1) else c.attempts end || r.line
  from ${unnest(['uuid', 'integer', 'text', 'bigint', 'bigint', 'bigint', 'integer'], 1)}
    as r(job_id, attempt, line, due_at_ms, delivered_at_ms, failed_at_ms, uncounted)
  where c.job_id = r.job_id and c.attempt = r.attempt and c.due_at_ms is not null
    and right(c.attempts, length(r.line)) <> r.line
  returning c.job_id, c.attempt`,
}
const DEFER: Statement = {
  repeatable: true,
  name: 'defer callbacks',
  text: `
  update callbacks c set attempt = c.attempt - 1, tries = c.tries - 1, under_way = false, due_at_ms = p.due_at_ms
  from unnest($2::uuid[], $3::integer[], $4::bigint[]) as p(job_id, attempt, due_at_ms)
  where c.job_id = p.job_id and c.attempt = p.attempt and c.node = $1`,
}

/** A callback must belong to a job, so the callback of a batch gets a row of a finished job without a model (`NO_MODEL`). */
export const batchStepOperations = { advanceBatch: advanceBatch(POSTGRES, owe) }

function* owe({ batchId, account, callback, createdAtMs, nowMs }: BatchReport): Steps<void> {
  const id = sql`${batchId}::uuid`
  const at = sql`${Math.floor(nowMs)}::bigint`
  const bytes = sql`${requestBytes('[]', '{}', callback) + 2}::bigint`
  yield sql`
  with job as (
    insert into jobs (id, account, tier, model, cache_ttl_s, input_tokens, created_at_ms, messages, response_format, callback)
    values (${id}, ${account}, '', ${NO_MODEL}, 0, 0, ${Math.floor(createdAtMs)}::bigint, '[]', '{}', ${callback})
  ),
  outcome as (
    insert into outcomes (id, status, usage, receipt, node, attempt, deaths, claimed_at_ms, settled_at_ms, counted, bytes)
    values (${id}, 'completed', '{}', '{}', '', 0, 0, ${at}, ${at}, true, ${bytes})
  ),
  owed as (
    insert into callbacks (job_id, account, owed_since_ms, due_at_ms) values (${id}, ${account}, ${at}, ${at})
  )
  insert into quota_deltas (${raw(QUOTA_COLUMNS)})
  values (${account}, hour_of_job(${id}), 0, 0, ${bytes}, 0)`
}
