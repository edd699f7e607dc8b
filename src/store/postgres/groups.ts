/** Gathers operations that arrive together into statements of many rows, one group for each kind of operation. */
import { GroupCommit, type GroupCommitOptions } from '../group-commit.ts'

/** Operations in one statement. */
const MAX_GROUP = 512
/** Statements of a kind that run at once: the next gathers while one waits for the disk, and one while it is sent. */
const IN_FLIGHT = 2
/** Maximum characters in one statement. Larger ones cost more memory than they gain. */
export const MAX_WEIGHT = 4 * 1024 * 1024

export class StatementGroups {
  readonly #all: { drained(): Promise<void> }[] = []

  /** Nothing is shed unless `maxQueued` is set. */
  add<Op, Result>(
    options: Partial<GroupCommitOptions<Op, Result>> & Pick<GroupCommitOptions<Op, Result>, 'commit'>,
  ): GroupCommit<Op, Result> {
    const limits = { inFlight: IN_FLIGHT, maxGroup: MAX_GROUP, maxQueued: Number.POSITIVE_INFINITY }
    const group = new GroupCommit<Op, Result>({ ...limits, ...options })
    this.#all.push(group)
    return group
  }

  /** Resolves when nothing is queued and nothing is in commit. */
  async drained(): Promise<void> {
    await Promise.all(this.#all.map((group) => group.drained()))
  }
}
