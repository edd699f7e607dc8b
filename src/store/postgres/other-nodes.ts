/** What the nodes of a database publish in their rows: how far each has claimed the routes, and which features it knows. */
import type { Feature } from '../node-store.ts'
import { numberOf, type Row, textOrNull } from '../rows.ts'
import type { Database, Statement } from './database.ts'
import type { RouteWalks } from './route-walks.ts'

/** The other nodes, as this node last read them. */
export class OtherNodes {
  readonly #database: Database
  readonly #node: string
  readonly #walks: RouteWalks
  /** The features of each live node. */
  #known: readonly (readonly string[])[] = []
  /** The features of each node that has a row, dead or alive. */
  #knownToAny: readonly (readonly string[])[] = []

  constructor(database: Database, node: string, walks: RouteWalks) {
    this.#database = database
    this.#node = node
    this.#walks = walks
  }

  isKnownToAll(feature: Feature): boolean {
    return this.#known.every((features) => features.includes(feature))
  }

  /**
   * Whether every node with a row knows the feature, even if its lease has expired: in an outage of the database every lease
   * expires, and paused nodes may return.
   */
  isKnownToAbsent(feature: Feature): boolean {
    return this.#knownToAny.every((features) => features.includes(feature))
  }

  /** Publishes how far this node has claimed each route. Reads the same of the other nodes, and their features. */
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
 * Nodes up to version 0.3 use one turn for all routes. They must get the turns of newer nodes, because otherwise the jobs that
 * they queue would come first.
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
