/** Reads: jobs as their accounts may see them, answers kept for identical jobs, the length of the line. Many in one statement. */
import { isJobId } from '../../job/job-id.ts'
import type { JobRecord } from '../../job/job-record.ts'
import { cacheHitOf, type Expiry, expiresAtMs } from '../expiry.ts'
import { GroupCommit } from '../group-commit.ts'
import type { Depth, EndedJob } from '../store.ts'
import type { Database, Row, Statement } from './database.ts'
import { eachAlone } from './unknown-commit.ts'
import { IN_FLIGHT, MAX_GROUP } from './write.ts'

/** Gathers reads into statements of many rows. */
export class PostgresRead {
  readonly #reads: GroupCommit<ReadJob>
  readonly #recalls: GroupCommit<Recall>

  constructor(database: Database) {
    const common = { inFlight: IN_FLIGHT, maxGroup: MAX_GROUP, maxQueued: Number.POSITIVE_INFINITY }
    this.#reads = new GroupCommit({
      ...common,
      commit: (group) => eachAlone(group, (some) => readJobs(database, some)),
    })
    this.#recalls = new GroupCommit({
      ...common,
      commit: (group) => eachAlone(group, (some) => recallAll(database, some)),
    })
  }

  read(job: ReadJob): Promise<JobRecord | null> {
    return this.#reads.submit(job)
  }

  recall(fingerprint: string, nowMs: number): Promise<string | null> {
    return this.#recalls.submit({ fingerprint, nowMs })
  }

  async drained(): Promise<void> {
    await Promise.all([this.#reads.drained(), this.#recalls.drained()])
  }
}

interface ReadJob {
  readonly account: string
  readonly jobId: string
  readonly expiry: Expiry
}

async function readJobs(database: Database, reads: readonly ReadJob[]): Promise<(JobRecord | null)[]> {
  // A text that is no id would fail the whole statement.
  const ids = reads.map(({ jobId }) => (isJobId(jobId) ? jobId : null))
  const rows = await database.query(READ, [ids, reads.map(({ account }) => account)])
  const byPlace = new Map(rows.map((row) => [Number(row.place), row]))
  return reads.map(({ expiry }, index) => {
    const row = byPlace.get(index + 1)
    return row && !hasExpired(row, expiry) ? recordOf(row) : null
  })
}

function hasExpired(row: Row, { nowMs, retentionMs }: Expiry): boolean {
  if (row.settled_at_ms === null || row.due_at_ms !== null) return false
  return expiresAtMs(Number(row.settled_at_ms), Number(row.cache_ttl_s), retentionMs) <= nowMs
}

function recordOf(row: Row): JobRecord {
  return {
    id: String(row.id),
    status: String(row.status) as JobRecord['status'],
    createdAtMs: Number(row.created_at_ms),
    contentJson: row.content as string | null,
    errorJson: row.error as string | null,
  }
}

export async function readEnded(database: Database, jobIds: readonly string[]): Promise<EndedJob[]> {
  const rows = await database.query(READ_ENDED, [jobIds])
  return rows.map((row) => ({ ...recordOf(row), cacheHit: cacheHitOf(String(row.usage)) }))
}

interface Recall {
  readonly fingerprint: string
  readonly nowMs: number
}

async function recallAll(database: Database, recalls: readonly Recall[]): Promise<(string | null)[]> {
  const fingerprints = recalls.map(({ fingerprint }) => fingerprint)
  const rows = await database.query(RECALL, [fingerprints, recalls.map(({ nowMs }) => Math.floor(nowMs))])
  const byPlace = new Map(rows.map(({ place, content }) => [Number(place), String(content)]))
  return recalls.map((_, index) => byPlace.get(index + 1) ?? null)
}

/** Counted one by one up to here; beyond it the statistics that the database keeps are near enough. */
const COUNTED = 10_000

export async function readDepth(database: Database): Promise<Depth> {
  const [row] = await database.query(DEPTH, [COUNTED])
  const [assigned, counted] = [Number(row?.assigned), Number(row?.waiting)]
  const waiting = counted > COUNTED ? Math.max(counted, Number(row?.open) - assigned) : counted
  const oldest = row?.oldest_ms
  return { waiting, assigned, oldestCreatedAtMs: oldest == null ? null : Number(oldest) }
}

const STATUS = `case when o.status is not null then o.status when q.attempt > 0 then 'assigned' else 'pending' end`

const READ: Statement = {
  repeatable: true,
  name: 'read',
  text: `
  select r.place, j.id, j.created_at_ms, j.cache_ttl_s, ${STATUS} as status, o.content, o.error, o.settled_at_ms,
    c.due_at_ms
  from unnest($1::uuid[], $2::text[]) with ordinality as r(id, account, place)
  join jobs j on j.id = r.id and j.account = r.account
  left join outcomes o on o.id = r.id
  left join open_jobs q on q.id = r.id
  left join callbacks c on c.job_id = r.id`,
}
const READ_ENDED: Statement = {
  repeatable: true,
  name: 'read ended',
  text: `
  select j.id, j.created_at_ms, o.status, o.content, o.error, o.usage
  from unnest($1::uuid[]) as r(id) join outcomes o on o.id = r.id join jobs j on j.id = r.id`,
}
const RECALL: Statement = {
  repeatable: true,
  name: 'findResponse',
  text: `
  select r.place, k.content
  from unnest($1::text[], $2::bigint[]) with ordinality as r(fingerprint, now_ms, place)
  cross join lateral (
    select o.content from kept_answers a join outcomes o on o.id = a.job_id
    where a.fingerprint = r.fingerprint and a.until_ms > r.now_ms
    order by a.kept_at_ms desc, a.job_id desc limit 1
  ) k`,
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
