/** Returns jobs and callbacks of dead nodes, whose lease has expired, in Postgres. */
import type { Claim } from '../node-store.ts'
import type { Store } from '../store.ts'
import type { Statement } from './database.ts'
import { headTurn } from './fair-order.ts'
import type { PostgresParts } from './parts.ts'
import { noteReturned } from './release.ts'

interface OneStart {
  readonly node: string
  readonly claim: Claim
}

export function rescueOperations(parts: PostgresParts): Pick<Store, 'recordStarts' | 'rescue'> {
  const { database, groups, walks } = parts
  /** Starts of suspects, all of this node. */
  const starts = groups.add<OneStart, undefined>({
    commit: async (group) => {
      const claims = group.map(({ claim }) => claim)
      const columns = [claims.map(({ jobId }) => jobId), claims.map(({ attempt }) => attempt)]
      await database.query(RECORD_STARTS, [group[0]?.node, ...columns])
      return claims.map(() => undefined)
    },
  })
  return {
    recordStarts: async (node, claims) => {
      await Promise.all(claims.map((claim) => starts.submit({ node, claim })))
    },

    rescue: async (node, nowMs) => {
      const rows = await database.query(RESCUE, [node, walks.turnsJson(), Math.floor(nowMs)])
      noteReturned(parts, rows)
      return rows.length
    },
  }
}

/** $1 node, $2 IDs, $3 attempts. */
const RECORD_STARTS: Statement = {
  repeatable: true,
  name: 'record starts',
  text: `
  update open_jobs o set started = c.attempt from unnest($2::uuid[], $3::integer[]) as c(id, attempt)
  where o.id = c.id and o.node = $1 and o.attempt = c.attempt`,
}

/** Whether the node in a row of the table is dead. $1 must be this node, which is never dead. */
const isDead = (table: string) => `${table}.node is not null and ${table}.node <> $1
    and (${table}.node in (select node from dead) or not exists (select 1 from nodes n where n.node = ${table}.node))`

/** Whether the crash counts against the job. */
const COUNTS = '(o.deaths = 0 or o.started = o.attempt)'

/**
 * $1 node, $2 the turns of routes, $3 the current time. Lists the nodes with callbacks first, because a node can have very many
 * callbacks. A node without a row in `nodes` is dead, too: after its row was deleted, it wrote something and exited. A crash
 * counts against a suspect if its start was recorded. A suspect crashed alone if the crash counts against no other suspect of
 * its node.
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
  ),
  lost as (
    select node, count(*) filter (where deaths = 0 or started = attempt) as jobs,
      count(*) filter (where deaths > 0 and started = attempt) as suspects
    from open_jobs l where ${isDead('l')} group by node
  )
  update open_jobs o set node = null, turn = ${headTurn('$2', 'o.route')},
    deaths = o.deaths + (${COUNTS})::integer,
    crashed_alone = case
      when not ${COUNTS} then o.crashed_alone
      when case when o.deaths = 0 then l.jobs else l.suspects end = 1 then o.deaths + 1
      else 0
    end
  from lost l where l.node = o.node and ${isDead('o')}
  returning o.route, o.turn`,
}
