/** What the operations of the Postgres store share: groups of statements, and what this node knows about other nodes. */
import { GroupCommit, type GroupCommitOptions } from '../group-commit.ts'
import type { Feature } from '../node-store.ts'
import { numberOf, type Row, textOrNull } from '../rows.ts'
import type { Database, Statement } from './database.ts'
import type { Notifications } from './notifications.ts'
import type { RouteWalks } from './route-walks.ts'

const MAX_GROUP = 512
/** While one statement waits for the disk, the next one of its kind is sent. */
const IN_FLIGHT = 2
/** Statements with more characters would cost more memory and hardly save time. */
export const MAX_WEIGHT = 4 * 1024 * 1024

/** Concurrent operations of one kind share a statement with many rows. */
export class StatementGroups {
  readonly #all: { drained(): Promise<void> }[] = []

  /** Without `maxQueued`, no operation is rejected because too many are queued. */
  add<Op, Result>(
    options: Partial<GroupCommitOptions<Op, Result>> & Pick<GroupCommitOptions<Op, Result>, 'commit'>,
  ): GroupCommit<Op, Result> {
    const limits = { inFlight: IN_FLIGHT, maxGroup: MAX_GROUP, maxQueued: Number.POSITIVE_INFINITY }
    const group = new GroupCommit<Op, Result>({ ...limits, ...options })
    this.#all.push(group)
    return group
  }

  async drained(): Promise<void> {
    await Promise.all(this.#all.map((group) => group.drained()))
  }
}

export interface PostgresParts {
  readonly database: Database
  readonly groups: StatementGroups
  readonly walks: RouteWalks
  readonly others: OtherNodes
  readonly notifications: Notifications
  readonly maxQueued: number
  readonly onCommit?: (size: number, ms: number) => void
}

/** What other nodes publish in their rows: how far each has claimed the routes, and which features it knows. */
export class OtherNodes {
  readonly #database: Database
  readonly #node: string
  readonly #walks: RouteWalks
  #known: readonly (readonly string[])[] = []
  /** Nodes that are dead but still have a row count, too. */
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
   * Nodes whose lease has expired count too: in an outage of the database every lease expires, and paused nodes may come back.
   */
  isKnownToAbsent(feature: Feature): boolean {
    return this.#knownToAny.every((features) => features.includes(feature))
  }

  /** Reads what other nodes have published, and publishes how far this node has claimed each route. */
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

/** Nodes up to version 0.3 read one turn for all routes from `turn`. Without it, the jobs that they queue would come first. */
const LOOK: Statement = {
  repeatable: true,
  name: 'look at other nodes',
  text: `
  with mine as (
    update nodes set turn = greatest(turn, $2::bigint), turns = $3 where node = $1 and turns is distinct from $3
  )
  select turn, turns, features, lease_until > clock_timestamp() as is_alive from nodes where node <> $1`,
}
