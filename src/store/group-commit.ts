/**
 * Self-clocking group commit: while some groups are being committed, the next one gathers, so under load the groups grow until
 * the database keeps up. An operation waits for others only if its caller allows it: at a few hundred jobs per second, a commit
 * costs more in wake-ups of two threads than in work, and costs the same for one job as for many.
 */
import { StoreUnavailable } from './store.ts'

/** Takes the place of the result of an operation that failed although others of its group did not. */
export class Failed {
  readonly error: unknown

  constructor(error: unknown) {
    this.error = error
  }
}

/** A timer cannot wait for less. */
const MIN_WAIT_MS = 1
/** With so many in a group, waiting for more saves little. */
const ENOUGH = 16

export interface SubmitOptions {
  /** Whether the operation may be rejected because too many are queued. */
  readonly sheddable?: boolean
  /**
   * How long the operation may wait for others. Any operation that does not wait takes along those that do. In real time instead
   * of that of an injected clock, because what it saves depends on the speed of the machine.
   */
  readonly mayWaitMs?: number | undefined
}

export interface GroupCommitOptions<Op, Result> {
  /** Commits a group and resolves with the result of each operation, in order. A rejection is the error of all of them. */
  readonly commit: (ops: readonly Op[]) => Promise<readonly (Result | Failed)[]>
  /**
   * Maximum concurrent commits. More than one keeps a serial database busy: when it finishes a group, it finds the next one
   * waiting, instead of idling until this event loop sends it.
   */
  readonly inFlight: number
  /** The largest number of operations in one group, so that one transaction stays short. */
  readonly maxGroup: number
  /**
   * The same in bytes or characters, for operations of very different sizes. An operation that exceeds `max` forms its own
   * group.
   */
  readonly weight?: { readonly of: (op: Op) => number; readonly max: number }
  /** How many operations may be queued or in commit; a sheddable one beyond that is rejected with `StoreUnavailable`. */
  readonly maxQueued: number
  /** Called after each group that was committed, with its size and how long the commit took. */
  readonly onCommit?: (size: number, ms: number) => void
}

export class GroupCommit<Op, Result> {
  readonly #options: GroupCommitOptions<Op, Result>
  /** The group that gathers, and the promise of each of its operations. */
  #ops: Op[] = []
  #promises: PromiseWithResolvers<Result>[] = []
  #groupsInCommit = 0
  #opsInCommit = 0
  #scheduled = false
  /** The shortest wait of the group that gathers; 0 if it is to be sent as soon as possible. */
  #waitMs = Number.POSITIVE_INFINITY
  #timer: NodeJS.Timeout | undefined
  #onIdle: (() => void)[] = []

  constructor(options: GroupCommitOptions<Op, Result>) {
    this.#options = options
  }

  /** Adds an operation to the group that gathers; resolves when that group is committed. */
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

  /** Resolves when nothing is queued and nothing is in commit. */
  drained(): Promise<void> {
    if (this.#groupsInCommit === 0 && this.#ops.length === 0) return Promise.resolve()
    return new Promise((resolve) => this.#onIdle.push(resolve))
  }

  #sendSoon = (): void => {
    this.#waitMs = 0
    if (this.#scheduled || this.#groupsInCommit >= this.#options.inFlight) return
    this.#scheduled = true
    // At the end of this turn of the event loop, so that everything from this turn belongs to the same group.
    setImmediate(this.#send)
  }

  #sendAfter(ms: number): void {
    this.#waitMs = ms
    clearTimeout(this.#timer)
    this.#timer = setTimeout(this.#sendSoon, ms)
  }

  #send = (): void => {
    this.#scheduled = false
    const { inFlight, maxGroup, weight } = this.#options
    while (this.#ops.length > 0 && this.#groupsInCommit < inFlight) {
      const [ops, promises] = [this.#ops, this.#promises]
      const most = Math.min(ops.length, maxGroup)
      const size = weight ? sizeByWeight(ops, most, weight) : most
      // Usually the whole group goes, and then nothing is copied.
      this.#ops = size === ops.length ? [] : ops.splice(size)
      this.#promises = size === promises.length ? [] : promises.splice(size)
      void this.#commit(ops, promises)
    }
    if (this.#ops.length > 0) return
    this.#waitMs = Number.POSITIVE_INFINITY
    clearTimeout(this.#timer)
  }

  /** Never rejects. */
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

/** How many of the first operations fit within the weight limit; at least one. */
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
