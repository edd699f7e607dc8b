/**
 * The crashes that are counted for each node in Postgres. They are reverted if the node was only paused, and confirmed when it
 * has been absent long enough. A trigger on `open_jobs` writes the rows (migrations.ts).
 */
import { numberOf, textOf } from '../rows.ts'
import type { Store } from '../store.ts'
import type { Database, Statement } from './database.ts'
import type { PostgresParts } from './parts.ts'
import { noteReturned } from './release.ts'

export function crashOperations(
  parts: PostgresParts,
): Pick<Store, 'revertCrashes' | 'absentNodes' | 'confirmCrashes'> {
  const { database } = parts
  return {
    revertCrashes: async () => {
      const rows = await database.query(REVERT)
      // Walks skip suspects. A job may no longer be one, so walks must find it again.
      noteReturned(parts, rows)
      return rows.reduce((sum, row) => sum + numberOf(row, 'crashes'), 0)
    },

    absentNodes: async () => (await database.query(ABSENT, [])).map((row) => textOf(row, 'node')),

    confirmCrashes: async (nodes, absentMs) => {
      await database.query(CONFIRM, [nodes, absentMs])
    },
  }
}

/** Deletes a bounded number of crashes of finished jobs. */
export async function forgetCrashes(database: Database, limit: number): Promise<void> {
  await database.query(FORGET, [limit])
}

/** @param crash the alias of `crashes` */
const hasLease = (crash: string) =>
  `exists (select 1 from nodes n where n.node = ${crash}.node and n.lease_until > clock_timestamp())`

const REVERT: Statement = {
  name: 'revert crashes',
  text: `
  with reverted as (
    delete from crashes c where ${hasLease('c')} returning job_id
  ),
  counts as (select job_id, count(*)::integer as crashes from reverted group by job_id)
  update open_jobs o set deaths = greatest(0, o.deaths - c.crashes), crashed_alone = 0
  from counts c where o.id = c.job_id returning o.route, o.turn, c.crashes`,
}
const ABSENT: Statement = {
  repeatable: true,
  name: 'absent nodes',
  text: `select distinct c.node from crashes c where not c.confirmed and not ${hasLease('c')}`,
}
const CONFIRM: Statement = {
  repeatable: true,
  name: 'confirm crashes',
  text: `update crashes c set confirmed = true
    where not confirmed and node = any ($1::text[])
      and counted_at < clock_timestamp() - $2::double precision * interval '1 ms' and not ${hasLease('c')}`,
}
const FORGET: Statement = {
  repeatable: true,
  name: 'forget crashes',
  text: `delete from crashes where (job_id, attempt) in (
      select job_id, attempt from crashes c where not exists (select 1 from open_jobs o where o.id = c.job_id) limit $1::bigint
    )`,
}
