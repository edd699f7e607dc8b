/**
 * Reads jobs in Postgres, cached responses, and the length of the queue. Concurrent calls of `read` share statements, and so do
 * those of `findResponse`.
 */
import { isJobId } from '../../job/job-id.ts'
import { storedTextOf } from '../compressed-text.ts'
import type { Expiry } from '../expiry.ts'
import { ANY_SIZE, hasExpired, IS_JOB, readEndedJob, readWithin } from '../job-rows.ts'
import { numberOf, numberOrNull, textOf } from '../rows.ts'
import type { ReadJob, Store } from '../store.ts'
import { resultBytesOf } from '../stored-bytes.ts'
import type { Database, Statement } from './database.ts'
import type { PostgresParts } from './parts.ts'
import { textOf as textOfColumn } from './texts.ts'
import { eachAlone } from './unknown-commit.ts'

interface Read {
  readonly account: string
  readonly jobId: string
  readonly expiry: Expiry
  readonly maxBytes: number
}

export function readOperations({
  database,
  groups,
}: PostgresParts): Pick<Store, 'read' | 'readEnded' | 'findMissing'> {
  const reads = groups.add<Read, ReadJob | null>({
    commit: (group) => eachAlone(group, (some) => readJobs(database, some)),
  })
  return {
    read: (account, jobId, expiry, maxBytes = ANY_SIZE) => reads.submit({ account, jobId, expiry, maxBytes }),

    readEnded: async (jobIds, maxBytes = ANY_SIZE) =>
      (await database.query(READ_ENDED, [jobIds, maxBytes])).map(readEndedJob),

    findMissing: async (jobIds) =>
      (await database.query(FIND_MISSING, [jobIds])).map((row) => textOf(row, 'id')),
  }
}

async function readJobs(database: Database, reads: readonly Read[]): Promise<(ReadJob | null)[]> {
  // A text that is not a UUID would make the whole statement fail.
  const ids = reads.map(({ jobId }) => (isJobId(jobId) ? jobId : null))
  const accounts = reads.map(({ account }) => account)
  const limits = reads.map(({ maxBytes }) => maxBytes)
  const rows = await database.query(READ, [ids, accounts, limits])
  const byPlace = new Map(rows.map((row) => [numberOf(row, 'place'), row]))
  return reads.map(({ expiry, maxBytes }, index) => {
    const row = byPlace.get(index + 1)
    return row && !hasExpired(row, expiry) ? readWithin(row, maxBytes) : null
  })
}

const STATUS = `case when o.status is not null then o.status when q.attempt > 0 then 'assigned' else 'pending' end`

const BYTES = resultBytesOf('o')
const CONTENT = textOfColumn('o', 'content')

const READ: Statement = {
  repeatable: true,
  name: 'read',
  text: `
  select r.place, j.id, j.created_at_ms, j.cache_ttl_s, ${STATUS} as status, o.settled_at_ms,
    c.due_at_ms, ${BYTES} as bytes, case when ${BYTES} <= r.max_bytes then ${CONTENT} end as content,
    case when ${BYTES} <= r.max_bytes then o.error end as error, o.usage
  from unnest($1::uuid[], $2::text[], $3::int[]) with ordinality as r(id, account, max_bytes, place)
  join jobs j on j.id = r.id and j.account = r.account and ${IS_JOB}
  left join outcomes o on o.id = r.id
  left join open_jobs q on q.id = r.id
  left join callbacks c on c.job_id = r.id`,
}
/** Large texts are stored outside of their rows, so Postgres does not read a text that is left out of the result. */
const READ_ENDED: Statement = {
  repeatable: true,
  name: 'read ended',
  text: `
  select id, created_at_ms, status, ${textOfColumn('ended', 'content')} as content, error, usage from (
    select j.id, j.created_at_ms, o.status, o.content, o.content_zstd, o.error, o.usage, ${BYTES} as bytes,
      sum(${BYTES}) over (order by r.place) as total
    from unnest($1::uuid[]) with ordinality as r(id, place) join outcomes o on o.id = r.id join jobs j on j.id = r.id
  ) ended
  where total <= $2::bigint or total = bytes`,
}
/** With the limit, each job is one index lookup, whatever the planner estimates. */
const FIND_MISSING: Statement = {
  repeatable: true,
  name: 'find missing',
  text: `
  select r.id from unnest($1::uuid[]) as r(id)
  left join lateral (select true as there from jobs where id = r.id limit 1) j on true
  where j.there is null`,
}

/** Up to this many queued jobs are counted exactly. Beyond it, the database's statistics are good enough. */
const MAX_COUNTED = 10_000

export function healthOperations(
  { database }: PostgresParts,
  nowMs: () => number,
): Pick<Store, 'depth' | 'ping'> {
  return {
    depth: async () => {
      const [row = {}] = await database.query(DEPTH, [MAX_COUNTED])
      const [assigned, counted] = [numberOf(row, 'assigned'), numberOf(row, 'waiting')]
      const waiting = counted > MAX_COUNTED ? Math.max(counted, numberOf(row, 'open') - assigned) : counted
      return { waiting, assigned, oldestCreatedAtMs: numberOrNull(row, 'oldest_ms') }
    },

    ping: async () => {
      await database.query(PROBE, [nowMs()])
    },
  }
}

const DEPTH: Statement = {
  repeatable: true,
  name: 'depth',
  text: `
  select
    (select count(*) from (select 1 from open_jobs where turn is not null limit $1::bigint + 1) w) as waiting,
    (select count(*) from open_jobs where node is not null) as assigned,
    (select pg_stat_get_live_tuples('open_jobs'::regclass)) as open,
    (select j.created_at_ms from jobs j
      where j.id = (select id from open_jobs where turn is not null order by id limit 1)) as oldest_ms`,
}
const PROBE: Statement = { repeatable: true, name: 'probe', text: 'update probe set at_ms = $1' }

interface LookUp {
  readonly fingerprint: string
  readonly nowMs: number
}

export function responseCacheOperations({ database, groups }: PostgresParts): Pick<Store, 'findResponse'> {
  const lookUps = groups.add<LookUp, string | null>({
    commit: (group) => eachAlone(group, (some) => findAll(database, some)),
  })
  return { findResponse: (fingerprint, nowMs) => lookUps.submit({ fingerprint, nowMs }) }
}

async function findAll(database: Database, lookUps: readonly LookUp[]): Promise<(string | null)[]> {
  const fingerprints = lookUps.map(({ fingerprint }) => fingerprint)
  const rows = await database.query(FIND, [fingerprints, lookUps.map(({ nowMs }) => Math.floor(nowMs))])
  const byPlace = new Map(rows.map((row) => [numberOf(row, 'place'), storedTextOf(row, 'content')]))
  return lookUps.map((_, index) => byPlace.get(index + 1) ?? null)
}

const FIND: Statement = {
  repeatable: true,
  name: 'find response',
  text: `
  select r.place, ${textOfColumn('k', 'content')} as content
  from unnest($1::text[], $2::bigint[]) with ordinality as r(fingerprint, now_ms, place)
  cross join lateral (
    select o.content, o.content_zstd from kept_answers a join outcomes o on o.id = a.job_id
    where a.fingerprint = r.fingerprint and a.until_ms > r.now_ms
    order by a.kept_at_ms desc, a.job_id desc limit 1
  ) k`,
}
