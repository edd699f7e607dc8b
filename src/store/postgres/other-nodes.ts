/** What nodes on one database tell each other in their rows: how far each has claimed the routes, and what it knows. */
import type { Feature } from '../node-store.ts'
import { numberOf, type Row, textOrNull } from '../rows.ts'
import type { Database, Statement } from './database.ts'
import type { RouteWalks } from './route-walks.ts'

/** What this node knows of the others, as of its last look at them. */
export class OtherNodes {
  readonly #database: Database
  readonly #node: string
  readonly #walks: RouteWalks
  /** What each of those that are alive knows. */
  #known: readonly (readonly string[])[] = []
  /** The same of all that have a row, dead or alive. */
  #knownToAny: readonly (readonly string[])[] = []

  constructor(database: Database, node: string, walks: RouteWalks) {
    this.#database = database
    this.#node = node
    this.#walks = walks
  }

  isKnownToAll(feature: Feature): boolean {
    return this.#known.every((features) => features.includes(feature))
  }

  /** Also to nodes whose leases have expired: during an outage of the database all have, and those that were paused may return. */
  isKnownToAbsent(feature: Feature): boolean {
    return this.#knownToAny.every((features) => features.includes(feature))
  }

  /** Shares how far this node has claimed each route, and learns how far the others have, and what they know. */
  async look(): Promise<void> {
    const turns = this.#walks.turns()
    const highest = Math.max(0, ...Object.values(turns))
    const rows = await this.#database.query(LOOK, [this.#node, highest, JSON.stringify(turns)])
    let floor = 0
    for (const row of rows) {
      const turnsJson = textOrNull(row, 'turns')
      if (turnsJson === null) floor = Math.max(floor, numberOf(row, 'turn'))
      else this.#walks.reached(JSON.parse(turnsJson))
    }
    this.#walks.setFloor(floor)
    const alive = rows.filter(({ is_alive }) => is_alive === true)
    this.#known = alive.map(featuresOf)
    this.#knownToAny = rows.map(featuresOf)
  }
}

const featuresOf = (row: Row) => (textOrNull(row, 'features') ?? '').split(' ')

/**
 * Nodes up to version 0.3 share one turn of all routes, which they get from the others as well: otherwise the jobs that they queue
 * would come before all others.
 */
const LOOK: Statement = {
  repeatable: true,
  name: 'look at other nodes',
  text: `
  with mine as (
    update nodes set turn = greatest(turn, $2::bigint), turns = $3 where node = $1 and turns is distinct from $3
  )
  select turn, turns, features, lease_until > clock_timestamp() as is_alive from nodes where node <> $1`,
}
