/**
 * Returns jobs to the head of the queue in Postgres, with their callbacks: jobs that this node releases, and jobs of dead nodes
 * (whose lease has expired).
 */

import type { Claim } from '../node-store.ts'
import { numberOf, type Row, textOf } from '../rows.ts'
import type { Store, WaitingRelease } from '../store.ts'
import type { Statement } from './database.ts'
import { headTurn } from './fair-order.ts'
import type { PostgresParts } from './parts.ts'
import { MAX_WEIGHT } from './parts.ts'
import { eachAlone } from './unknown-commit.ts'

interface OneRelease {
  readonly node: string
  readonly release: WaitingRelease
}

export function releaseOperations(parts: PostgresParts): Pick<Store, 'release' | 'releaseWaiting'> {
  const { database, groups, walks } = parts
  /** Releases of this node. When a model server fails, all of its jobs are released at once, so releases share statements. */
  const waiting = groups.add<OneRelease, undefined>({
    weight: { of: ({ release }) => 100 + release.earlierJson.length, max: MAX_WEIGHT },
    commit: (group) => eachAlone(group, releaseAll),
  })

  const releaseAll = async (group: readonly OneRelease[]): Promise<undefined[]> => {
    const releases = group.map(({ release }) => release)
    const columns = [
      releases.map(({ jobId }) => jobId),
      releases.map(({ attempt }) => attempt),
      releases.map(({ route }) => route),
      releases.map(({ earlierJson }) => earlierJson),
      releases.map(({ sinceMs }) => Math.floor(sinceMs)),
      releases.map(({ waitedMs }) => Math.floor(waitedMs)),
    ]
    noteReturned(
      parts,
      await database.query(RELEASE_WAITING, [group[0]?.node, walks.turnsJson(), ...columns]),
    )
    return group.map(() => undefined)
  }

  return {
    releaseWaiting: async (node, releases) => {
      await Promise.all(releases.map((release) => waiting.submit({ node, release })))
    },

    release: async (node, claims) => {
      const ids = claims.map(({ jobId }) => jobId)
      const attempts = claims.map(({ attempt }) => attempt)
      noteReturned(parts, await database.query(RELEASE, [node, ids, attempts, walks.turnsJson()]))
    },
  }
}

/**
 * Informs the walks of this node (`route-walks.ts`) and the other nodes about jobs that returned to the queue. Each row has
 * `route` and `turn`; the turn is null if another node has claimed the job.
 */
export function noteReturned({ walks, notifications }: PostgresParts, rows: readonly Row[]): void {
  for (const row of rows) {
    if (row.turn === null) continue
    const [route, turn] = [textOf(row, 'route'), numberOf(row, 'turn')]
    walks.joined(route, turn)
    notifications.jobQueued(route, turn)
  }
}

/** $1 node, $2 IDs, $3 attempts, $4 the turns of routes. */
const RELEASE: Statement = {
  repeatable: true,
  name: 'release',
  text: `
  update open_jobs o set node = null, turn = ${headTurn('$4', 'o.route')}
  from unnest($2::uuid[], $3::integer[]) as c(id, attempt)
  where o.id = c.id and o.node = $1 and o.attempt = c.attempt returning o.route, o.turn`,
}

/** $1 node, $2 the turns of routes, then IDs, attempts, routes, earlier runs, times of release, and earlier waiting times. */
const RELEASE_WAITING: Statement = {
  repeatable: true,
  name: 'release waiting',
  text: `
  update open_jobs o set node = null, turn = ${headTurn('$2', 'c.route')}, route = c.route, earlier = c.earlier,
    waits_since_ms = c.since_ms, waited_ms = c.waited_ms
  from unnest($3::uuid[], $4::integer[], $5::text[], $6::text[], $7::bigint[], $8::bigint[])
    as c(id, attempt, route, earlier, since_ms, waited_ms)
  where o.id = c.id and o.node = $1 and o.attempt = c.attempt returning o.route, o.turn`,
}

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
