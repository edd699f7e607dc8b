/**
 * Group commit: while groups of writes are being committed, the next group gathers, so groups grow under load until the
 * database keeps up. At a few hundred jobs per second, waking threads costs more than the work of a commit, whether it has one
 * job or many.
 */
import { StoreUnavailable } from './store.ts'

/** Replaces the result of an operation that failed while others of its group succeeded. */
export class Failed {
  readonly error: unknown

  constructor(error: unknown) {
    this.error = error
  }
}

/** An operation that may wait for less than this does not wait, because a timer of Node cannot be shorter. */
const MIN_WAIT_MS = 1
/** A group with this many operations is sent without waiting, because more would save little. */
const ENOUGH = 16

export interface SubmitOptions {
  readonly sheddable?: boolean
  /**
   * The operation may wait this long for others, unless the group has `ENOUGH` operations or gets one that must not wait. The
   * time is real, not that of an injected clock, because the saving depends on the speed of the machine.
   */
  readonly mayWaitMs?: number | undefined
}

export interface GroupCommitOptions<Op, Result> {
  /** Resolves with the results in order. If it rejects, every operation of the group rejects with that error. */
  readonly commit: (ops: readonly Op[]) => Promise<readonly (Result | Failed)[]>
  /**
   * At most this many commits run at once. With more than one, a database that commits serially need not wait for this event
   * loop.
   */
  readonly inFlight: number
  readonly maxGroup: number
  /** Limits the total weight of a group. An operation that weighs more than `max` forms its own group. */
  readonly weight?: { readonly of: (op: Op) => number; readonly max: number }
  /** If this many operations are queued or in commit, further sheddable ones are rejected with `StoreUnavailable`. */
  readonly maxQueued: number
  readonly onCommit?: (size: number, ms: number) => void
}

export class GroupCommit<Op, Result> {
  readonly #options: GroupCommitOptions<Op, Result>
  /** Each operation of the gathering group has a promise at the same index. */
  #ops: Op[] = []
  #promises: PromiseWithResolvers<Result>[] = []
  #groupsInCommit = 0
  #opsInCommit = 0
  #scheduled = false
  /** The shortest wait in the gathering group; 0 to send the group as soon as possible. */
  #waitMs = Number.POSITIVE_INFINITY
  /** A shorter wait adds a timer, so that a later operation cannot extend the wait of an earlier one. */
  #timers: NodeJS.Timeout[] = []
  #onIdle: (() => void)[] = []

  constructor(options: GroupCommitOptions<Op, Result>) {
    this.#options = options
  }

  submit(op: Op, { sheddable = false, mayWaitMs = 0 }: SubmitOptions = {}): Promise<Result> {
    const { maxQueued } = this.#options
    if (sheddable && this.#ops.length + this.#opsInCommit >= maxQueued) {
      return Promise.reject(new StoreUnavailable('Too many writes are waiting for the database.'))
    }
    const promise = Promise.withResolvers<Result>()
    this.#ops.push(op)
    this.#promises.push(promise)
    if (mayWaitMs < MIN_WAIT_MS || this.#ops.length >= ENOUGH) this.#sendSoon()
    else if (mayWaitMs < this.#waitMs) this.#sendAfter(mayWaitMs)
    return promise.promise
  }

  drained(): Promise<void> {
    if (this.#groupsInCommit === 0 && this.#ops.length === 0) return Promise.resolve()
    return new Promise((resolve) => this.#onIdle.push(resolve))
  }

  #sendSoon = (): void => {
    this.#waitMs = 0
    if (this.#scheduled || this.#groupsInCommit >= this.#options.inFlight) return
    this.#scheduled = true
    // All operations of this turn of the event loop share the group.
    setImmediate(this.#send)
  }

  #sendAfter(ms: number): void {
    this.#waitMs = ms
    this.#timers.push(setTimeout(this.#sendSoon, ms))
  }

  #send = (): void => {
    this.#scheduled = false
    const { inFlight, maxGroup, weight } = this.#options
    while (this.#ops.length > 0 && this.#groupsInCommit < inFlight) {
      const [ops, promises] = [this.#ops, this.#promises]
      const most = Math.min(ops.length, maxGroup)
      const size = weight ? sizeByWeight(ops, most, weight) : most
      // Usually the whole group is sent, so nothing is copied.
      this.#ops = size === ops.length ? [] : ops.splice(size)
      this.#promises = size === promises.length ? [] : promises.splice(size)
      void this.#commit(ops, promises)
    }
    if (this.#ops.length > 0) return
    this.#waitMs = Number.POSITIVE_INFINITY
    for (const timer of this.#timers.splice(0)) clearTimeout(timer)
  }

  async #commit(ops: readonly Op[], promises: readonly PromiseWithResolvers<Result>[]): Promise<void> {
    const startedMs = performance.now()
    this.#groupsInCommit += 1
    this.#opsInCommit += ops.length
    try {
      const results = await this.#options.commit(ops)
      this.#options.onCommit?.(ops.length, performance.now() - startedMs)
      let index = 0
      for (const { resolve, reject } of promises) {
        if (index === results.length) reject(new Error('the store lost the result of an operation'))
        else {
          const result = results[index++] as Result | Failed
          if (result instanceof Failed) reject(result.error)
          else resolve(result)
        }
      }
    } catch (error) {
      for (const { reject } of promises) reject(error)
    }
    this.#groupsInCommit -= 1
    this.#opsInCommit -= ops.length
    if (this.#waitMs === 0) this.#send()
    else if (this.#ops.length > 0) return
    else if (this.#groupsInCommit === 0) for (const resolve of this.#onIdle.splice(0)) resolve()
  }
}

/** At least one operation is sent, even if it exceeds the weight limit. */
function sizeByWeight<Op>(
  ops: readonly Op[],
  most: number,
  { of, max }: { readonly of: (op: Op) => number; readonly max: number },
): number {
  let total = 0
  for (const [index, op] of ops.entries()) {
    if (index === most) break
    total += of(op)
    if (total > max) return Math.max(1, index)
  }
  return most
}
