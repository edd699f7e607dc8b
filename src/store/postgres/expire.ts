/** Deletes what has expired: whole partitions where that is sound, and the rest in small steps; and folds usage. */
import { leastJobId } from '../../job/job-id.ts'
import { type Expiry, expiresAtMs } from '../expiry.ts'
import { forgetCancelled } from './cancel.ts'
import type { Database, Row, Statement } from './database.ts'
import { ALLOW_BITMAPS, keepPartitions } from './partitions.ts'
import { foldUsage } from './usage.ts'

/** Rows that one step looks at, of each kind. */
const STEP = 400
const PARTITIONS_EVERY_MS = 60_000
const NO_ID = '00000000-0000-0000-0000-000000000000'

export class PostgresExpiry {
  readonly #database: Database
  /** Where the walk through the default partition has come to. It starts anew when it reaches the young jobs. */
  #cursor = NO_ID
  #partitionsDueMs = 0

  constructor(database: Database) {
    this.#database = database
  }

  /** Takes one step; returns whether another would find work now. */
  async step(expiry: Expiry): Promise<boolean> {
    await this.#keepPartitions(expiry)
    const answers = await this.#database.transaction(async ({ query }) => {
      await query(ALLOW_BITMAPS)
      return query(DELETE_ANSWERS, [expiry.nowMs, STEP])
    })
    const keys = await this.#database.query(DELETE_KEYS, [expiry.nowMs, STEP])
    const jobs = await this.#walkJobs(expiry)
    await forgetCancelled(this.#database, expiry.nowMs)
    if (await foldUsage(this.#database)) return true
    return answers.length >= STEP || keys.length >= STEP || jobs >= STEP
  }

  async #keepPartitions(expiry: Expiry): Promise<void> {
    if (performance.now() < this.#partitionsDueMs) return
    this.#partitionsDueMs = performance.now() + PARTITIONS_EVERY_MS
    await keepPartitions(this.#database, expiry)
  }

  async #walkJobs({ nowMs, retentionMs }: Expiry): Promise<number> {
    const rows = await this.#database.query(OLD_JOBS, [this.#cursor, leastJobId(nowMs - retentionMs), STEP])
    const isOver = (row: Row) =>
      row.settled_at_ms !== null &&
      row.due_at_ms === null &&
      expiresAtMs(Number(row.settled_at_ms), Number(row.cache_ttl_s), retentionMs) <= nowMs
    const over = rows.filter(isOver).map(({ id }) => String(id))
    if (over.length > 0) await this.#database.query(DELETE_JOBS, [over])
    const last = rows.at(-1)
    this.#cursor = last && rows.length === STEP ? String(last.id) : NO_ID
    return rows.length
  }
}

const DELETE_ANSWERS: Statement = {
  repeatable: true,
  name: 'delete answers',
  text: `delete from kept_answers where ctid = any(array(
      select ctid from kept_answers where until_ms <= $1::bigint limit $2::bigint
    )) returning 1`,
}
const DELETE_KEYS: Statement = {
  repeatable: true,
  name: 'delete idempotency keys',
  text: `delete from idempotency where (account, key) in (
      select account, key from idempotency where until_ms <= $1::bigint order by until_ms limit $2::bigint
    ) returning 1`,
}
const OLD_JOBS: Statement = {
  repeatable: true,
  name: 'old jobs',
  text: `
  select j.id, j.cache_ttl_s, o.settled_at_ms, c.due_at_ms
  from jobs_default j left join outcomes o on o.id = j.id left join callbacks c on c.job_id = j.id
  where j.id > $1::uuid and j.id < $2::uuid order by j.id limit $3::bigint`,
}
const DELETE_JOBS: Statement = {
  repeatable: true,
  name: 'delete jobs',
  text: `
  with gone as (delete from jobs where id = any($1::uuid[])),
  told as (delete from callbacks where job_id = any($1::uuid[]))
  delete from outcomes where id = any($1::uuid[])`,
}
