/**
 * Deletes expired data in Postgres, as whole partitions if possible. Also adds the deltas of usage and quotas to their sums.
 */
import { leastJobId } from '../../job/job-id.ts'
import { purgeBatches } from '../batches.ts'
import { BEFORE_ALL } from '../chunked-search.ts'
import type { Expiry } from '../expiry.ts'
import { fileOperations } from '../files.ts'
import { hasExpired } from '../job-rows.ts'
import { rerunOperations } from '../reruns.ts'
import { textOf } from '../rows.ts'
import type { Store } from '../store.ts'
import { forgetCancelled } from './cancel.ts'
import { type Database, methodsOn, queryOf, type Statement } from './database.ts'
import { POSTGRES } from './dialect.ts'
import { forgetCrashes } from './nodes.ts'
import { ALLOW_BITMAPS, keepPartitions } from './partitions.ts'
import type { PostgresParts } from './parts.ts'
import { deleteRows, foldQuotas, foldUsage, reconcileOpenJobs } from './quotas.ts'

/** One step examines at most this many rows of each kind, so that it does not delay other work. */
const STEP = 400
const PARTITIONS_EVERY_MS = 60_000
/** The sums of quotas are reconciled this rarely, because it takes half a second for a million open jobs. */
const QUOTAS_EVERY_MS = 600_000

export function expireOperations({ database }: PostgresParts): Pick<Store, 'expire'> {
  /** The last examined job of the default partition, so that a round examines each job only once. */
  let cursor = BEFORE_ALL
  let partitionsDueMs = 0
  let quotasDueMs = 0
  const files = methodsOn(database, { ...fileOperations(POSTGRES), purgeBatches })
  const { forgetReruns } = methodsOn(database, rerunOperations(POSTGRES))
  return {
    expire: async (expiry) => {
      if (performance.now() >= partitionsDueMs) {
        partitionsDueMs = performance.now() + PARTITIONS_EVERY_MS
        await keepPartitions(database, expiry)
      }
      const responses = await database.transaction(async ({ query }) => {
        await query(ALLOW_BITMAPS)
        return query(DELETE_RESPONSES, [expiry.nowMs, STEP])
      })
      const keys = await database.query(DELETE_KEYS, [expiry.nowMs, STEP])
      const jobs = await deleteJobs(database, expiry, cursor)
      cursor = jobs.cursor
      await forgetCancelled(database, expiry.nowMs)
      await forgetCrashes(database, STEP)
      await files.purgeBatches(expiry.nowMs)
      const hasMoreFiles = await files.purgeFiles(expiry.nowMs)
      const hasMoreReruns = await forgetReruns(expiry)
      if (performance.now() >= quotasDueMs) {
        quotasDueMs = performance.now() + QUOTAS_EVERY_MS
        await reconcileOpenJobs(database)
      }
      const hasMoreUsage = await foldUsage(database)
      if ((await foldQuotas(database)) || hasMoreUsage || hasMoreFiles || hasMoreReruns) return true
      return responses.length >= STEP || keys.length >= STEP || jobs.scanned >= STEP
    },
  }
}

async function deleteJobs(
  database: Database,
  expiry: Expiry,
  cursor: string,
): Promise<{ scanned: number; cursor: string }> {
  const before = leastJobId(expiry.nowMs - expiry.retentionMs)
  const rows = await database.query(OLD_JOBS, [cursor, before, STEP])
  const expired = rows.filter((row) => hasExpired(row, expiry)).map((row) => textOf(row, 'id'))
  if (expired.length > 0) await queryOf(database.repeatable, deleteRows(expired))
  const last = rows.at(-1)
  return { scanned: rows.length, cursor: last && rows.length === STEP ? textOf(last, 'id') : BEFORE_ALL }
}

const DELETE_RESPONSES: Statement = {
  repeatable: true,
  name: 'delete responses',
  text: `delete from kept_answers where ctid = any(array(
      select ctid from kept_answers where until_ms <= $1::bigint limit $2::bigint
    )) returning 1`,
}
const DELETE_KEYS: Statement = {
  repeatable: true,
  name: 'delete idempotency keys',
  // Skips locked rows, because an acceptance may lock several keys in another order, and waiting for it could deadlock.
  text: `delete from idempotency where (account, key) in (
      select account, key from idempotency where until_ms <= $1::bigint order by until_ms limit $2::bigint
      for update skip locked
    ) returning 1`,
}
const OLD_JOBS: Statement = {
  repeatable: true,
  name: 'old jobs',
  text: `
  select j.id, j.cache_ttl_s, o.settled_at_ms, c.due_at_ms
  from jobs_default j left join outcomes o on o.id = j.id left join callbacks c on c.job_id = j.id
  where j.id > $1::uuid and j.id < $2::uuid
    and not exists (select 1 from batch_lines l where l.job_id = j.id::text)
  order by j.id limit $3::bigint`,
}
