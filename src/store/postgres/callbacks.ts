/** Owed callbacks in Postgres. */
import type { Callback } from '../../job/job.ts'
import type { JobView } from '../../job/view.ts'
import type { CallbackNext, DueCallback } from '../callback-store.ts'
import { readSecrets } from './accounts.ts'
import type { Database, Row } from './database.ts'

export async function takeCallbacks(
  database: Database,
  limit: number,
  nowMs: number,
  leaseUntilMs: number,
): Promise<DueCallback[]> {
  return (await database.query(TAKE, [limit, nowMs, leaseUntilMs])).map(dueCallback)
}

export async function recordCallback(
  database: Database,
  jobId: string,
  attempt: number,
  next: CallbackNext,
  nowMs: number,
): Promise<boolean> {
  const dueAtMs = next.kind === 'due' ? next.atMs : null
  const deliveredAtMs = next.kind === 'delivered' ? nowMs : null
  return (await database.query(RECORD, [jobId, attempt, dueAtMs, deliveredAtMs])).length > 0
}

function dueCallback(row: Row): DueCallback {
  return {
    attempt: Number(row.attempt),
    callback: JSON.parse(String(row.callback)) as Callback,
    view: {
      id: String(row.job_id),
      status: String(row.status) as JobView['status'],
      createdAtMs: Number(row.created_at_ms),
      contentJson: row.content as string | null,
      errorJson: row.error as string | null,
    },
    secrets: readSecrets(row),
  }
}

/** $1 limit, $2 now, $3 until when each is taken. */
const TAKE = {
  name: 'take callbacks',
  text: `
  with due as (
    select job_id from callbacks where due_at_ms <= $2::bigint
    order by due_at_ms limit $1::bigint for update skip locked
  ),
  taken as (
    update callbacks c set attempt = c.attempt + 1, due_at_ms = $3::bigint from due where c.job_id = due.job_id
    returning c.job_id, c.account, c.attempt
  )
  select t.job_id, t.attempt, j.callback, j.created_at_ms, o.status, o.content, o.error,
    a.secret, a.previous_secret, a.rotated_at_ms
  from taken t join jobs j on j.id = t.job_id join outcomes o on o.id = t.job_id join accounts a on a.name = t.account`,
}
const RECORD = {
  name: 'record callback',
  text: `update callbacks set due_at_ms = $3::bigint, delivered_at_ms = $4::bigint
    where job_id = $1 and attempt = $2 and due_at_ms is not null returning job_id`,
}
