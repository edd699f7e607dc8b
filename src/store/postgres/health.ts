/** Returns the length of the queue in Postgres, and checks whether the database accepts writes. */
import { numberOf, numberOrNull } from '../rows.ts'
import type { Store } from '../store.ts'
import type { Statement } from './database.ts'
import type { PostgresParts } from './parts.ts'

/** Up to this many jobs are counted exactly. Beyond it, the database's statistics are good enough. */
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
