/** What the operations of the Postgres store of one node share. */
import { GroupCommit, type GroupCommitOptions } from '../group-commit.ts'
import type { Database } from './database.ts'
import type { Notifications } from './notifications.ts'
import type { OtherNodes } from './other-nodes.ts'
import type { RouteWalks } from './route-walks.ts'

/** The maximum number of operations in one statement. */
const MAX_GROUP = 512
/** Concurrent statements of one kind. While one waits for the disk, the next one is sent. */
const IN_FLIGHT = 2
/** Maximum characters in one statement. Larger statements would cost more memory and hardly save time. */
export const MAX_WEIGHT = 4 * 1024 * 1024

/** Groups concurrent operations, so that a statement has many rows. There is one group for each kind of operation. */
export class StatementGroups {
  readonly #all: { drained(): Promise<void> }[] = []

  /** Adds a kind of operation. Unless `maxQueued` is set, operations are never rejected because of the length of the queue. */
  add<Op, Result>(
    options: Partial<GroupCommitOptions<Op, Result>> & Pick<GroupCommitOptions<Op, Result>, 'commit'>,
  ): GroupCommit<Op, Result> {
    const limits = { inFlight: IN_FLIGHT, maxGroup: MAX_GROUP, maxQueued: Number.POSITIVE_INFINITY }
    const group = new GroupCommit<Op, Result>({ ...limits, ...options })
    this.#all.push(group)
    return group
  }

  /** Resolves when no operation is queued or in commit. */
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
  /** How many writes of each kind may be queued before new jobs are rejected. */
  readonly maxQueued: number
  readonly onCommit?: (size: number, ms: number) => void
}
