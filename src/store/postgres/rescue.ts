/** Returns the jobs and callbacks of dead nodes in Postgres: of nodes whose lease has expired. */
import { numberOf } from '../rows.ts'
import type { Store } from '../store.ts'
import type { Statement } from './database.ts'
import type { PostgresParts } from './parts.ts'
import { headTurn } from './release.ts'

export function rescueOperations({
  database,
  queueHead,
  notifications,
}: PostgresParts): Pick<Store, 'rescue'> {
  return {
    rescue: async (node, nowMs) => {
      const rows = await database.query(RESCUE, [node, queueHead.turn, Math.floor(nowMs)])
      for (const row of rows) queueHead.joined(numberOf(row, 'turn'))
      if (rows.length > 0) notifications.jobQueued(queueHead.turn)
      return rows.length
    },
  }
}

/** $1 is this node, and never dead. */
const isDead = (table: string) => `${table}.node is not null and ${table}.node <> $1
    and (${table}.node in (select node from dead) or not exists (select 1 from nodes n where n.node = ${table}.node))`

/**
 * $1 node, $2 the queue's turn, $3 now. A node may have very many callbacks, so the nodes that have any are
 * listed first. A node without a lease is dead too: it lost the lease, wrote, and exited.
 */
const RESCUE: Statement = {
  repeatable: true,
  name: 'rescue',
  text: `
  with recursive dead as (
    delete from nodes where node <> $1 and lease_until < clock_timestamp() returning node
  ),
  holders as (
    (select node from callbacks where node is not null order by node limit 1)
    union all
    select (select c.node from callbacks c where c.node > h.node order by c.node limit 1)
    from holders h where h.node is not null
  ),
  callbacks_freed as (
    update callbacks c set node = null, under_way = false, due_at_ms = least(c.due_at_ms, $3::bigint)
    where c.node in (select h.node from holders h where ${isDead('h')})
  )
  update open_jobs o set node = null, deaths = o.deaths + 1, turn = ${headTurn('$2')} where ${isDead('o')}
  returning o.turn`,
}
