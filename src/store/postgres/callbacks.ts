/** Owed callbacks in Postgres. What is recorded together goes into one statement. */
import { attemptLine, readCallbackBody, readDueCallback, recordCells, URL_PREFIX } from '../callback-rows.ts'
import {
  type AttemptRecord,
  BODY_READ_BYTES,
  type CallbackBody,
  type CallbackDepth,
  type CallbackToLoad,
  COUNTED,
  DELIVERY_QUEUES,
  type DeferredCallback,
  type DueCallback,
  MOST_KEPT,
  type TakeCallbacks,
  type TakeDeferred,
} from '../callback-store.ts'
import { GroupCommit } from '../group-commit.ts'
import { unnest } from './columns.ts'
import type { Database, Statement } from './database.ts'
import { eachAlone } from './unknown-commit.ts'
import { IN_FLIGHT, MAX_GROUP } from './write.ts'

export class PostgresCallbacks {
  readonly #database: Database
  readonly #records: GroupCommit<AttemptRecord>
  readonly #bodies: GroupCommit<CallbackToLoad>

  constructor(database: Database) {
    this.#database = database
    this.#records = new GroupCommit({
      inFlight: IN_FLIGHT,
      maxGroup: MAX_GROUP,
      maxQueued: Number.POSITIVE_INFINITY,
      commit: (group) => eachAlone(group, (some) => recordAll(database, some)),
    })
    this.#bodies = new GroupCommit({
      inFlight: IN_FLIGHT,
      maxGroup: MAX_GROUP,
      weight: { of: ({ bodyBytes }) => bodyBytes, max: BODY_READ_BYTES },
      maxQueued: Number.POSITIVE_INFINITY,
      commit: (group) => eachAlone(group, (some) => loadAll(database, some)),
    })
  }

  async take({ node, queue: lane, limit, nowMs, leaseUntilMs }: TakeCallbacks): Promise<DueCallback[]> {
    const rows = await this.#database.query(TAKE, [
      node,
      DELIVERY_QUEUES.indexOf(lane),
      limit,
      nowMs,
      leaseUntilMs,
    ])
    return rows.map(readDueCallback)
  }

  async takePostponed({ node, postponed, leaseUntilMs }: TakeDeferred): Promise<DueCallback[]> {
    const rows = await this.#database.query(TAKE_POSTPONED, [
      node,
      postponed.map(({ jobId }) => jobId),
      postponed.map(({ attempts }) => attempts),
      leaseUntilMs,
    ])
    return rows.map(readDueCallback)
  }

  load(callback: CallbackToLoad): Promise<CallbackBody | null> {
    return this.#bodies.submit(callback)
  }

  record(record: AttemptRecord): Promise<boolean> {
    return this.#records.submit(record)
  }

  async postpone(node: string, postponed: readonly DeferredCallback[]): Promise<void> {
    await this.#database.query(POSTPONE, [
      node,
      postponed.map(({ jobId }) => jobId),
      postponed.map(({ attempt }) => attempt),
      postponed.map(({ dueAtMs }) => dueAtMs),
    ])
  }

  async depth(): Promise<CallbackDepth> {
    const [row] = await this.#database.query(DEPTH)
    const earliest = row?.earliest_due_ms
    return {
      owed: Number(row?.owed),
      failed: Number(row?.failed),
      earliestDueMs: earliest == null ? null : Number(earliest),
    }
  }

  async drained(): Promise<void> {
    await Promise.all([this.#records.drained(), this.#bodies.drained()])
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
  const bodies = new Map(rows.map((row) => [`${row.job_id} ${row.attempt}`, readCallbackBody(row)]))
  return callbacks.map(({ jobId, attempt }) => bodies.get(`${jobId} ${attempt}`) ?? null)
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
  const recorded = new Set(rows.map(({ job_id, attempt }) => `${job_id} ${attempt}`))
  return records.map(({ jobId, attempt }) => recorded.has(`${jobId} ${attempt.attempt}`))
}

/** Postgres knows these lengths, and the first characters, without reading the whole texts. */
const SELECT_TAKEN = `
  select t.*, left(j.callback, ${URL_PREFIX}) as callback_prefix,
    octet_length(j.callback) + coalesce(octet_length(o.content), octet_length(o.error), 0) as body_bytes
  from taken t join jobs j on j.id = t.job_id join outcomes o on o.id = t.job_id`

/**
 * $1 node, $2 lane, $3 limit, $4 now, $5 until when each is taken. What another node has in hand is its own until it is
 * dead, whatever the clocks say.
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
/** $1 node, $2 ids, $3 attempts so far, $4 until when each is taken. In the order of ids, so that no two wait for each other. */
const TAKE_POSTPONED = {
  name: 'take postponed callbacks',
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
/** $1 ids, $2 the attempts under which they were taken. */
const LOAD: Statement = {
  repeatable: true,
  name: 'load callbacks',
  text: `
  select t.job_id, t.attempt, j.callback, j.created_at_ms, o.status, o.content, o.error,
    a.secret, a.previous_secret, a.rotated_at_ms
  from unnest($1::uuid[], $2::integer[]) as t(job_id, attempt)
  join callbacks c on c.job_id = t.job_id and c.attempt = t.attempt and c.due_at_ms is not null and c.under_way
  join jobs j on j.id = t.job_id join outcomes o on o.id = t.job_id join accounts a on a.name = c.account`,
}
const RECORD = {
  name: 'record callbacks',
  text: `
  update callbacks c set due_at_ms = r.due_at_ms, delivered_at_ms = r.delivered_at_ms, failed_at_ms = r.failed_at_ms,
    node = null, under_way = false, tries = c.tries - r.uncounted,
    lane = case when r.due_at_ms is null then c.lane else 1 end,
    attempts = case when length(c.attempts) > ${MOST_KEPT}
      then substr(c.attempts, position(E'\\n' in c.attempts) + 1) else c.attempts end || r.line
  from ${unnest(['uuid', 'integer', 'text', 'bigint', 'bigint', 'bigint', 'integer'], 1)}
    as r(job_id, attempt, line, due_at_ms, delivered_at_ms, failed_at_ms, uncounted)
  where c.job_id = r.job_id and c.attempt = r.attempt and c.due_at_ms is not null
  returning c.job_id, c.attempt`,
}
const POSTPONE: Statement = {
  repeatable: true,
  name: 'postpone callbacks',
  text: `
  update callbacks c set attempt = c.attempt - 1, tries = c.tries - 1, under_way = false, due_at_ms = p.due_at_ms
  from unnest($2::uuid[], $3::integer[], $4::bigint[]) as p(job_id, attempt, due_at_ms)
  where c.job_id = p.job_id and c.attempt = p.attempt and c.node = $1`,
}
const DEPTH: Statement = {
  repeatable: true,
  name: 'callback depth',
  text: `
  select
    (select count(*) from (select 1 from callbacks where due_at_ms is not null limit ${COUNTED}) c) as owed,
    (select count(*) from (select 1 from callbacks where failed_at_ms is not null limit ${COUNTED}) c) as failed,
    (select min(due) from (
      select min(due_at_ms) as due from callbacks where lane = 0 and due_at_ms is not null
      union all select min(due_at_ms) from callbacks where lane = 1 and due_at_ms is not null
    ) d) as earliest_due_ms`,
}
