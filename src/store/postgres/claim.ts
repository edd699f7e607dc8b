/** Claims queued jobs in Postgres, in fair order. */
import { numberOf } from '../rows.ts'
import type { PoisonCandidates, Store } from '../store.ts'
import { readClaimedJob } from './columns.ts'
import type { PostgresParts } from './parts.ts'

export function claimOperations({ database, queueHead }: PostgresParts): Pick<Store, 'claim'> {
  return {
    claim: async (node, limit, nowMs, candidates) => {
      const walk = queueHead.begin(performance.now())
      const { crashCount, limit: most, maxCrashCount } = candidates ?? NO_CANDIDATES
      const some = [crashCount, Math.min(limit, most), Math.floor(nowMs), maxCrashCount]
      const values = [node, walk.fromTurn, limit, ...some]
      const rows = await database.query(CLAIM, values)
      const turns = rows.filter(({ deaths }) => deaths === 0).map((row) => numberOf(row, 'turn'))
      queueHead.end(walk, turns.length === 0 ? null : Math.max(...turns), performance.now())
      return rows.map(readClaimedJob)
    },
  }
}

/** A crash count that no job reaches. */
const NEVER = 2_147_483_647
const NO_CANDIDATES: PoisonCandidates = { crashCount: NEVER, limit: 0, maxCrashCount: NEVER }

/**
 * $1 node, $2 the turn to begin at, $3 limit, $4 the crash count of a poison candidate, $5 how many of those, $6 now, $7 the
 * crash count that is to fail, for which every crash must be confirmed. Jobs that were assigned in a crash are few and have an index of their own, so that a walk that begins behind one that was
 * passed over still finds it.
 *
 * Written so that the planner cannot mistake how few rows there are: each limit is a plain number (a tenth of the table is
 * what it takes a limit for that it must compute), and ids come as an array. Joined with what it took for a tenth, it read
 * all of `open_jobs` for each claim. Rows are only locked as `first` asks for them, so none is that is not taken.
 */
export const CLAIM = {
  name: 'claim',
  text: `
  with candidates as (
    select id, turn from open_jobs o where turn is not null and deaths > 0 and deaths >= $4::integer
      and (deaths < $7::integer or not exists (select 1 from crashes c where c.job_id = o.id and not c.confirmed))
    order by turn, id limit $5::bigint for update skip locked
  ),
  crashed as (
    select id, turn from open_jobs where turn is not null and deaths > 0 and deaths < $4::integer
    order by turn, id limit $3::bigint for update skip locked
  ),
  others as (
    select id, turn from open_jobs where turn is not null and turn >= $2::bigint and deaths = 0
    order by turn, id limit $3::bigint for update skip locked
  ),
  first as (
    select * from candidates union all select * from crashed union all select * from others limit $3::bigint
  ),
  taken as (
    update open_jobs set turn = null, node = $1, attempt = attempt + 1, claimed_at_ms = $6::bigint
    where id = any (array (select id from first)) returning id, attempt, deaths
  )
  select j.*, t.attempt, t.deaths, f.turn
  from taken t join first f on f.id = t.id join jobs j on j.id = t.id order by f.turn, f.id`,
}
