/**
 * Leases of nodes in Postgres, by the database's clock, and how jobs leave a node: the node releases them, or its lease expires
 * and they are rescued. Then a trigger on `open_jobs` (migrations.ts) stores crashes of the node. These are reverted if the
 * node was only paused, and confirmed when it has been absent long enough.
 */
import { type Claim, FEATURES, type Leases } from '../node-store.ts'
import { numberOf, type Row, textOf } from '../rows.ts'
import type { Store, WaitingRelease } from '../store.ts'
import { Database, type DatabaseOptions, type Statement } from './database.ts'
import { headTurn } from './fair-order.ts'
import { MAX_WEIGHT, type PostgresParts } from './parts.ts'
import { eachAlone } from './unknown-commit.ts'

export function nodeOperations({
  database,
  others,
}: PostgresParts): Pick<Store, 'isKnownToAll' | 'renew' | 'claimsOf' | 'leave' | 'readRate' | 'writeRate'> {
  return {
    isKnownToAll: (feature) => others.isKnownToAll(feature),

    renew: (node, leaseMs) => renew(database, node, leaseMs),

    claimsOf: async (node) => {
      const rows = await database.query(CLAIMS, [node])
      return rows.map((row) => ({ jobId: textOf(row, 'id'), attempt: numberOf(row, 'attempt') }))
    },

    leave: async (node) => {
      await database.query(LEAVE, [node])
    },

    readRate: async (name) => {
      const [row] = await database.query(READ_RATE, [name])
      return row === undefined ? null : { stateJson: textOf(row, 'state'), version: numberOf(row, 'version') }
    },

    writeRate: async (name, { stateJson, version }) => {
      const written = await database.query(WRITE_RATE, [name, stateJson, version])
      return written.length > 0
    },
  }
}

/**
 * With a separate connection, no other statement delays a renewal. The network gets no more time than the statement, because a
 * renewal that waits for a dead connection would delay the next one.
 */
export function openPostgresLeases(options: Omit<DatabaseOptions, 'connections'>): Leases {
  const database = new Database({ ...options, connections: 1, networkMs: options.statementMs })
  return {
    renew: (node, leaseMs) => renew(database, node, leaseMs),
    close: () => database.close(),
  }
}

async function renew(database: Database, node: string, leaseMs: number): Promise<boolean> {
  const [renewed] = await database.query(RENEW, [node, leaseMs])
  return renewed?.kept === true
}

/** `xmax` is 0 in a row that was inserted, and not in one that was updated. */
const RENEW = {
  name: 'renew',
  text: `insert into nodes (node, lease_until, features)
    values ($1, clock_timestamp() + $2::double precision * interval '1 ms', '${FEATURES.join(' ')}')
    on conflict (node) do update set lease_until = excluded.lease_until
    returning xmax <> 0 as kept`,
}
const CLAIMS: Statement = {
  repeatable: true,
  name: 'claims',
  text: 'select id, attempt from open_jobs where node = $1',
}
const LEAVE: Statement = { repeatable: true, name: 'leave', text: 'delete from nodes where node = $1' }
const READ_RATE: Statement = {
  repeatable: true,
  name: 'read rate',
  text: 'select state, version from rates where name = $1',
}
const WRITE_RATE: Statement = {
  name: 'write rate',
  text: `
  insert into rates as r (name, state, version) select $1, $2, $3::bigint + 1
    where $3::bigint = 0 or exists (select 1 from rates where name = $1)
  on conflict (name) do update set state = excluded.state, version = excluded.version where r.version = $3::bigint
  returning version`,
}

export function crashOperations(
  parts: PostgresParts,
): Pick<Store, 'revertCrashes' | 'absentNodes' | 'confirmCrashes'> {
  const { database } = parts
  return {
    revertCrashes: async () => {
      const rows = await database.query(REVERT)
      // Walks skip suspects. These jobs may no longer be suspects, so walks must find them.
      noteReturned(parts, rows)
      return rows.reduce((sum, row) => sum + numberOf(row, 'crashes'), 0)
    },

    absentNodes: async () => (await database.query(ABSENT, [])).map((row) => textOf(row, 'node')),

    confirmCrashes: async (nodes, absentMs) => {
      await database.query(CONFIRM, [nodes, absentMs])
    },
  }
}

export async function forgetCrashes(database: Database, limit: number): Promise<void> {
  await database.query(FORGET, [limit])
}

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

interface OneStart {
  readonly node: string
  readonly claim: Claim
}

export function rescueOperations(parts: PostgresParts): Pick<Store, 'recordStarts' | 'rescue'> {
  const { database, groups, walks } = parts
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

const RECORD_STARTS: Statement = {
  repeatable: true,
  name: 'record starts',
  text: `
  update open_jobs o set started = c.attempt from unnest($2::uuid[], $3::integer[]) as c(id, attempt)
  where o.id = c.id and o.node = $1 and o.attempt = c.attempt`,
}

/** $1 must be this node, which is never dead. */
const isDead = (table: string) => `${table}.node is not null and ${table}.node <> $1
    and (${table}.node in (select node from dead) or not exists (select 1 from nodes n where n.node = ${table}.node))`

/** The first crash of a job counts. A later crash counts only if the start of the job was recorded. */
const COUNTS = '(o.deaths = 0 or o.started = o.attempt)'

/**
 * $1 node, $2 the turns of routes, $3 the current time.
 *
 * `holders` lists the nodes that hold callbacks without reading all callbacks, because a node can have very many. A node
 * without a row in `nodes` is dead, too: for example, it wrote something after its row was deleted, and then exited. A suspect
 * crashed alone if the crash counts against no other suspect of its node.
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

interface OneRelease {
  readonly node: string
  readonly release: WaitingRelease
}

export function releaseOperations(parts: PostgresParts): Pick<Store, 'release' | 'releaseWaiting'> {
  const { database, groups, walks } = parts
  /** When a model server fails, all of its jobs are released at once, so releases share statements. */
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
 * The walks of this node (`route-walks.ts`) and the other nodes must know that jobs returned to the queue. The turn in a row is
 * null if the job is not queued.
 */
export function noteReturned({ walks, notifications }: PostgresParts, rows: readonly Row[]): void {
  for (const row of rows) {
    if (row.turn === null) continue
    const [route, turn] = [textOf(row, 'route'), numberOf(row, 'turn')]
    walks.joined(route, turn)
    notifications.jobQueued(route, turn)
  }
}

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
