/** Reads jobs in Postgres as their accounts may see them, many in one statement. */
import { isJobId } from '../../job/job-id.ts'
import type { JobRecord } from '../../job/job-record.ts'
import type { Expiry } from '../expiry.ts'
import { hasExpired, readEndedJob, readJobRecord } from '../job-rows.ts'
import { numberOf } from '../rows.ts'
import type { Store } from '../store.ts'
import type { Database, Statement } from './database.ts'
import type { PostgresParts } from './parts.ts'
import { eachAlone } from './unknown-commit.ts'

interface ReadJob {
  readonly account: string
  readonly jobId: string
  readonly expiry: Expiry
}

export function readOperations({ database, groups }: PostgresParts): Pick<Store, 'read' | 'readEnded'> {
  const reads = groups.add<ReadJob, JobRecord | null>({
    commit: (group) => eachAlone(group, (some) => readJobs(database, some)),
  })
  return {
    read: (account, jobId, expiry) => reads.submit({ account, jobId, expiry }),

    readEnded: async (jobIds) => (await database.query(READ_ENDED, [jobIds])).map(readEndedJob),
  }
}

async function readJobs(database: Database, reads: readonly ReadJob[]): Promise<(JobRecord | null)[]> {
  // A text that is not an identifier would fail the whole statement.
  const ids = reads.map(({ jobId }) => (isJobId(jobId) ? jobId : null))
  const rows = await database.query(READ, [ids, reads.map(({ account }) => account)])
  const byPlace = new Map(rows.map((row) => [numberOf(row, 'place'), row]))
  return reads.map(({ expiry }, index) => {
    const row = byPlace.get(index + 1)
    return row && !hasExpired(row, expiry) ? readJobRecord(row) : null
  })
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
