/** Who holds which job: claims in fair order, and jobs that go back to the line. */
import type { ClaimedJob } from '../../job/job.ts'
import type { Claim } from '../node-store.ts'
import type { PoisonCandidates } from '../store.ts'
import { readClaimedJob } from './columns.ts'
import type { Database, Statement } from './database.ts'
import type { QueueHead } from './queue-head.ts'

export class PostgresClaim {
  readonly #database: Database
  readonly #line: QueueHead

  constructor(database: Database, line: QueueHead) {
    this.#database = database
    this.#line = line
  }

  async claim(
    node: string,
    limit: number,
    nowMs: number,
    suspects: PoisonCandidates | null,
  ): Promise<ClaimedJob[]> {
    const walk = this.#line.begin(performance.now())
    const some = suspects ? Math.min(limit, suspects.limit) : 0
    const values = [node, walk.fromTurn, limit, suspects?.crashCount ?? NO_DEATHS, some, Math.floor(nowMs)]
    const rows = await this.#database.query(CLAIM, values)
    const turns = rows.filter(({ deaths }) => deaths === 0).map(({ turn }) => Number(turn))
    this.#line.end(walk, turns.length === 0 ? null : Math.max(...turns), performance.now())
    return rows.map(readClaimedJob)
  }

  async giveBack(node: string, claims: readonly Claim[]): Promise<void> {
    const ids = claims.map(({ jobId }) => jobId)
    const attempts = claims.map(({ attempt }) => attempt)
    const rows = await this.#database.query(GIVE_BACK, [node, ids, attempts, this.#line.turn])
    for (const { turn } of rows) this.#line.joined(Number(turn))
  }

  async reclaim(node: string, nowMs: number): Promise<number> {
    const rows = await this.#database.query(RECLAIM, [node, this.#line.turn, Math.floor(nowMs)])
    for (const { turn } of rows) this.#line.joined(Number(turn))
    return rows.length
  }
}

/** More deaths than any job comes to. */
const NO_DEATHS = 2_147_483_647

/**
 * $1 node, $2 the turn to begin at, $3 limit, $4 deaths that make a suspect, $5 how many suspects, $6 now. Jobs that were held at a
 * death are few and have an index of their own, so that one that was passed over is not left behind the walk.
 *
 * Written so that the planner cannot mistake how few rows there are: each limit is a plain number (a tenth of the table is
 * what it takes a limit for that it must compute), and ids come as an array. Joined with what it took for a tenth, it read
 * all of `open_jobs` for each claim. Rows are only locked as `first` asks for them, so none is that is not taken.
 */
export const CLAIM = {
  name: 'claim',
  text: `
  with suspects as (
    select id, turn from open_jobs where turn is not null and deaths > 0 and deaths >= $4::integer
    order by turn, id limit $5::bigint for update skip locked
  ),
  died as (
    select id, turn from open_jobs where turn is not null and deaths > 0 and deaths < $4::integer
    order by turn, id limit $3::bigint for update skip locked
  ),
  others as (
    select id, turn from open_jobs where turn is not null and turn >= $2::bigint and deaths = 0
    order by turn, id limit $3::bigint for update skip locked
  ),
  first as (
    select * from suspects union all select * from died union all select * from others limit $3::bigint
  ),
  taken as (
    update open_jobs set turn = null, node = $1, attempt = attempt + 1, claimed_at_ms = $6::bigint
    where id = any (array (select id from first)) returning id, attempt, deaths
  )
  select j.*, t.attempt, t.deaths, f.turn
  from taken t join first f on f.id = t.id join jobs j on j.id = t.id order by f.turn, f.id`,
}

/** $1 is this node, and never dead. */
const isDead = (table: string) => `${table}.node is not null and ${table}.node <> $1
    and (${table}.node in (select node from dead) or not exists (select 1 from nodes n where n.node = ${table}.node))`

/** The turn of the head of the line, so that what goes back is first. $N the line's turn as the node knows it. */
const head = (parameter: string) =>
  `coalesce((select turn from open_jobs where turn >= ${parameter}::bigint order by turn, id limit 1), ${parameter}::bigint)`

/** $1 node, $2 ids, $3 attempts, $4 the line's turn. */
const GIVE_BACK: Statement = {
  repeatable: true,
  name: 'release',
  text: `
  update open_jobs o set node = null, turn = ${head('$4')}
  from unnest($2::uuid[], $3::integer[]) as c(id, attempt)
  where o.id = c.id and o.node = $1 and o.attempt = c.attempt returning o.turn`,
}

/**
 * $1 node, $2 the line's turn, $3 now. A node may have very many callbacks, so who has any is asked first. What belongs to a node without a lease is nobody's either: it lost it, wrote, and
 * died.
 */
const RECLAIM: Statement = {
  repeatable: true,
  name: 'reclaim',
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
  update open_jobs o set node = null, deaths = o.deaths + 1, turn = ${head('$2')} where ${isDead('o')}
  returning o.turn`,
}
