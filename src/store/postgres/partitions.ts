/**
 * The partitions of `jobs` and `outcomes`. Each has the jobs of one span of time, and is dropped when all of them have expired,
 * at the same cost for any number of jobs. Partitions are created ahead of time. A job that fits into none, for example because
 * a clock jumped, goes to the default partition, from which `expire` deletes rows one by one.
 */
import { leastJobId } from '../../job/job-id.ts'
import type { Expiry } from '../expiry.ts'
import type { Database, Queries } from './database.ts'
import { forgetEmptyHours, forgetHours } from './quotas.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const AHEAD = 3
const MOST = 60
/**
 * A transfer creates at most about this many partitions. It creates all of them in one transaction, each takes about ten locks,
 * and the lock table of Postgres is limited.
 */
const MAX_CREATED = 300
/** No response is cached for longer, whatever the retention of its job (SPEC §2.1). */
export const LONGEST_TTL_MS = HOUR_MS
/**
 * The creation or drop of a partition stops waiting for a lock after this time, because other statements wait behind it. The
 * next round tries again.
 */
const LOCK_MS = 200

interface Span {
  readonly fromMs: number
  readonly toMs: number
}

/**
 * Only one node at a time does this, and only if its role owns the tables. Each drop is a transaction of its own, because all
 * other statements on jobs wait until it is committed.
 */
export async function keepPartitions(database: Database, expiry: Expiry): Promise<void> {
  await ifOwner(database, async (queries) => {
    for (const span of missing(await spansOf(queries), expiry)) await create(queries, span)
  })
  while (await ifOwner(database, (queries) => dropOne(queries, expiry)));
}

function ifOwner<T>(database: Database, work: (queries: Queries) => Promise<T>): Promise<T | undefined> {
  return database.transaction(async (queries) => {
    const [lock] = await queries.query(TRY_LOCK)
    if (!lock?.mine) return undefined
    await queries.query(LIMIT_LOCKS)
    await queries.query(ALLOW_BITMAPS)
    return work(queries)
  })
}

async function dropOne(queries: Queries, expiry: Expiry): Promise<boolean> {
  for (const span of await spansOf(queries)) {
    if (!(await isOver(queries, span, expiry))) continue
    await drop(queries, span)
    return true
  }
  await forgetEmptyHours(queries, expiry.nowMs - expiry.retentionMs)
  return false
}

/**
 * Creates the partitions for transferred jobs. These keep their IDs, so they may need older partitions. No partition is created
 * after that of the current time, or more than `MAX_CREATED` spans before it.
 * @param idsMs the times in the IDs
 */
export async function partitionsFor(
  queries: Queries,
  idsMs: readonly number[],
  expiry: Expiry,
): Promise<void> {
  const width = widthOf(expiry)
  const oldestMs = expiry.nowMs - MAX_CREATED * width
  const wanted = new Set(idsMs.map((ms) => Math.floor(ms / width) * width))
  const spans = await spansOf(queries)
  for (const fromMs of [...wanted].sort((a, b) => a - b)) {
    const span = { fromMs, toMs: fromMs + width }
    const isFar = fromMs < oldestMs || fromMs > expiry.nowMs
    if (!isFar && !overlaps(spans, span)) await create(queries, span)
  }
}

async function spansOf(queries: Queries): Promise<Span[]> {
  const rows = await queries.query(LIST)
  return rows.map(({ name }) => {
    const [, from, to] = String(name).split('_')
    return { fromMs: Number(from) * 1000, toMs: Number(to) * 1000 }
  })
}

function missing(spans: readonly Span[], expiry: Expiry): Span[] {
  const width = widthOf(expiry)
  const wanted: Span[] = []
  const first = Math.floor(expiry.nowMs / width) * width
  for (let at = first; at < first + AHEAD * width; at += width) {
    const toMs = at + width
    // Partitions of an earlier retention may end in the middle of this one.
    const ends = spans.filter((span) => overlaps([span], { fromMs: at, toMs })).map((span) => span.toMs)
    const fromMs = Math.max(at, ...ends)
    if (fromMs < toMs) wanted.push({ fromMs, toMs })
  }
  return wanted
}

/** Many statements lock all partitions, so a longer retention makes them wider instead of creating more than about `MOST`. */
function widthOf({ retentionMs }: Expiry): number {
  return retentionMs < 2 * DAY_MS ? HOUR_MS : Math.ceil(retentionMs / (MOST * DAY_MS)) * DAY_MS
}

function overlaps(spans: readonly Span[], { fromMs, toMs }: Span): boolean {
  return spans.some((span) => span.fromMs < toMs && fromMs < span.toMs)
}

async function create(queries: Queries, span: Span): Promise<void> {
  const [from, to] = bounds(span)
  // Postgres cannot attach a partition if the default partition has rows of its span, so all rows of the span then stay there.
  const [strays] = await queries.query(STRAYS, [from, to])
  if (strays?.found) return
  for (const table of ['jobs', 'outcomes']) {
    const name = nameOf(table, span)
    await queries.query(plain(`create table ${name} (like ${table} including all)`))
    await queries.query(
      plain(`alter table ${table} attach partition ${name} for values from ('${from}') to ('${to}')`),
    )
  }
}

async function isOver(queries: Queries, span: Span, { nowMs, retentionMs }: Expiry): Promise<boolean> {
  if (span.toMs > nowMs - retentionMs) return false
  const keptMs = Math.max(retentionMs, LONGEST_TTL_MS)
  const [from, to] = bounds(span)
  const [row] = await queries.query(plain(STILL_NEEDED(nameOf('outcomes', span))), [from, to, nowMs - keptMs])
  return row?.needed === false
}

async function drop(queries: Queries, span: Span): Promise<void> {
  const [from, to] = bounds(span)
  await queries.query(FORGET_CALLBACKS, [from, to])
  await forgetHours(queries, span.fromMs, span.toMs)
  for (const table of ['jobs', 'outcomes']) await queries.query(plain(`drop table ${nameOf(table, span)}`))
}

function bounds({ fromMs, toMs }: Span): [string, string] {
  return [leastOf(fromMs), leastOf(toMs)]
}

/** The UUID is lower than every ID of that millisecond, whatever the version and variant bits of the ID. */
function leastOf(ms: number): string {
  return `${leastJobId(ms).slice(0, 13)}-0000-0000-000000000000`
}

function nameOf(table: string, { fromMs, toMs }: Span): string {
  return `${table}_${fromMs / 1000}_${toMs / 1000}`
}

/** Statements that run once are not worth preparing, so they have no name. */
const plain = (text: string) => ({ name: '', text })

const TRY_LOCK = {
  name: '',
  text: `select case when (
      select bool_and(pg_has_role(relowner, 'usage')) from pg_class where oid in ('jobs'::regclass, 'outcomes'::regclass)
    ) then pg_try_advisory_xact_lock(hashtextextended('partitions of ' || current_schema(), 0)) else false end as mine`,
}
const LIMIT_LOCKS = { name: '', text: `set local lock_timeout = ${LOCK_MS}` }
/** Bitmap scans are disabled (database.ts), but only they can use BRIN indexes, such as those of settlement times. */
export const ALLOW_BITMAPS = { name: '', text: 'set local enable_bitmapscan = on' }
const LIST = {
  name: '',
  text: `select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'jobs'::regclass and c.relname ~ '^jobs_[0-9]+_[0-9]+$' order by 1`,
}
const STRAYS = {
  name: '',
  text: `select exists (select 1 from jobs_default where id >= $1::uuid and id < $2::uuid)
    or exists (select 1 from outcomes_default where id >= $1::uuid and id < $2::uuid) as found`,
}
const STILL_NEEDED = (outcomes: string) => `
  select exists (select 1 from open_jobs where id >= $1::uuid and id < $2::uuid)
    or exists (select 1 from callbacks where job_id >= $1::uuid and job_id < $2::uuid and due_at_ms is not null)
    or exists (select 1 from batch_lines where job_id >= $1::uuid::text and job_id < $2::uuid::text)
    or exists (select 1 from ${outcomes} where settled_at_ms > $3::bigint) as needed`
const FORGET_CALLBACKS = {
  name: '',
  text: 'delete from callbacks where job_id >= $1::uuid and job_id < $2::uuid',
}
