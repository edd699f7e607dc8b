/**
 * Self-clocking group commit: while one group is being committed, the next one gathers. There is no timer, so a lone
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
  /** Operations in one group at most, so that one transaction stays short. */
  readonly maxGroup: number
  /** Operations that may wait; more are refused with `StoreUnavailable`. */
  readonly maxQueued: number
  /** Told of each group committed: its size and how long it took. */
  readonly onCommit?: (size: number, ms: number) => void
}

export class GroupCommit<Op> {
  readonly #options: GroupCommitOptions<Op>
  #waiting: Waiting<Op>[] = []
  #committing = false
  #idle: (() => void)[] = []

  constructor(options: GroupCommitOptions<Op>) {
    this.#options = options
  }

  get queued(): number {
    return this.#waiting.length
  }

  /**
   * Adds an operation to the group that gathers now; resolves when that group is committed.
   * @param sheddable whether the operation may be refused because too many wait already
   */
  submit<T>(op: Op, sheddable = false): Promise<T> {
    if (sheddable && this.#waiting.length >= this.#options.maxQueued) {
      return Promise.reject(new StoreUnavailable('Too many writes are waiting for the database.'))
    }
    return new Promise<T>((resolve, reject) => {
      this.#waiting.push({ op, resolve: resolve as (value: unknown) => void, reject })
      if (!this.#committing) {
        this.#committing = true
        // What else this turn of the event loop brings belongs to the same group.
        setImmediate(() => void this.#commitAll())
      }
    })
  }

  /** Resolves when nothing waits and nothing is under way. */
  drained(): Promise<void> {
    if (!this.#committing) return Promise.resolve()
    return new Promise((resolve) => this.#idle.push(resolve))
  }

  async #commitAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const { maxGroup } = this.#options
      const group = this.#waiting.length <= maxGroup ? this.#waiting : this.#waiting.slice(0, maxGroup)
      this.#waiting = group === this.#waiting ? [] : this.#waiting.slice(maxGroup)
      await this.#commitOne(group)
    }
    this.#committing = false
    for (const resolve of this.#idle.splice(0)) resolve()
  }

  async #commitOne(group: readonly Waiting<Op>[]): Promise<void> {
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
