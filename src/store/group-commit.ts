/**
 * Self-clocking group commit: while groups are being committed, the next one gathers. There is no timer, so a lone
 * write waits for nothing, and under load the groups grow until the disk keeps up.
 */
import { StoreUnavailable } from './store.ts'

interface Waiting<Op> {
  readonly op: Op
  readonly resolve: (value: unknown) => void
  readonly reject: (error: unknown) => void
}

/** What became of one operation of a group. */
export type OpResult = { readonly value: unknown } | { readonly error: unknown }

export interface GroupCommitOptions<Op> {
  /** Commits a group and says what became of each operation, in order. A rejection is every operation's error. */
  readonly commit: (ops: Op[]) => Promise<readonly OpResult[]>
  /**
   * Groups under way at once. More than one keeps a database busy that takes them in turn: it finds the next group
   * waiting when it ends one, instead of idling until the event loop here comes round to sending it.
   */
  readonly inFlight: number
  /** Operations in one group at most, so that one transaction stays short. */
  readonly maxGroup: number
  /** The same in bytes or the like, where operations differ much: a group ends with the one that reaches `max`. */
  readonly weight?: { readonly of: (op: Op) => number; readonly max: number }
  /** Operations that may wait or be under way; more are refused with `StoreUnavailable`. */
  readonly maxQueued: number
  /** Told of each group committed: its size and how long it took. */
  readonly onCommit?: (size: number, ms: number) => void
}

export class GroupCommit<Op> {
  readonly #options: GroupCommitOptions<Op>
  #waiting: Waiting<Op>[] = []
  #underWay = 0
  #opsUnderWay = 0
  #sending = false
  #idle: (() => void)[] = []

  constructor(options: GroupCommitOptions<Op>) {
    this.#options = options
  }

  /**
   * Adds an operation to the group that gathers now; resolves when that group is committed.
   * @param sheddable whether the operation may be refused because too many wait already
   */
  submit<T>(op: Op, sheddable = false): Promise<T> {
    if (sheddable && this.#waiting.length + this.#opsUnderWay >= this.#options.maxQueued) {
      return Promise.reject(new StoreUnavailable('Too many writes are waiting for the database.'))
    }
    return new Promise<T>((resolve, reject) => {
      this.#waiting.push({ op, resolve: resolve as (value: unknown) => void, reject })
      this.#sendSoon()
    })
  }

  /** Resolves when nothing waits and nothing is under way. */
  drained(): Promise<void> {
    if (this.#isIdle) return Promise.resolve()
    return new Promise((resolve) => this.#idle.push(resolve))
  }

  get #isIdle(): boolean {
    return this.#underWay === 0 && this.#waiting.length === 0
  }

  /** Sends at the end of this turn of the event loop: what else the turn brings belongs to the same group. */
  #sendSoon(): void {
    if (this.#sending || this.#underWay >= this.#options.inFlight) return
    this.#sending = true
    setImmediate(() => {
      this.#sending = false
      this.#send()
    })
  }

  #send(): void {
    const { inFlight } = this.#options
    while (this.#waiting.length > 0 && this.#underWay < inFlight) {
      const group = this.#nextGroup()
      this.#underWay += 1
      this.#opsUnderWay += group.length
      void this.#commit(group).then(() => {
        this.#underWay -= 1
        this.#opsUnderWay -= group.length
        this.#send()
        if (this.#isIdle) for (const resolve of this.#idle.splice(0)) resolve()
      })
    }
  }

  #nextGroup(): readonly Waiting<Op>[] {
    const all = this.#waiting
    const size = this.#groupSize(all)
    this.#waiting = size === all.length ? [] : all.slice(size)
    return size === all.length ? all : all.slice(0, size)
  }

  #groupSize(waiting: readonly Waiting<Op>[]): number {
    const { maxGroup, weight } = this.#options
    const most = Math.min(waiting.length, maxGroup)
    if (!weight) return most
    let total = 0
    for (let size = 1; size <= most; size++) {
      const last = waiting[size - 1]
      if (last) total += weight.of(last.op)
      if (total >= weight.max) return size
    }
    return most
  }

  /** Never rejects. */
  async #commit(group: readonly Waiting<Op>[]): Promise<void> {
    const startedMs = performance.now()
    try {
      const results = await this.#options.commit(group.map(({ op }) => op))
      this.#options.onCommit?.(group.length, performance.now() - startedMs)
      group.forEach(({ resolve, reject }, index) => {
        const result = results[index]
        if (result === undefined) reject(new Error('the store lost the result of an operation'))
        else if ('error' in result) reject(result.error)
        else resolve(result.value)
      })
    } catch (error) {
      for (const { reject } of group) reject(error)
    }
  }
}
