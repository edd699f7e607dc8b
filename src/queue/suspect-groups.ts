/**
 * How many suspects run at once. A suspect is a job whose node crashed while it held the job, so it may be what kills nodes. At
 * first one runs, and with each that ends one more, so the group doubles while nothing crashes. Of those that ran in a crash, at
 * most half run at once, and no more when some of these have ended: otherwise a poison job would run with most of them again. So
 * 256 suspects are soon done, and a job that kills its node is found by halving, in at most eight crashes. Those with the most
 * crashes run first, and by themselves.
 *
 * Nothing of this is stored: a process that starts after a crash sees from the crash counts how large the last group was.
 */
import type { QueuedSuspects } from '../store/store.ts'

/** A group has at most this many jobs, or a quarter of all suspects. */
const MAX_GROUP = 64
const MAX_PART = 1 / 4

/** Suspects to claim: up to `limit` with this crash count. */
export interface SuspectGroup {
  readonly crashCount: number
  readonly limit: number
}

export const NO_SUSPECTS: QueuedSuspects = { queued: 0, mostCrashes: 0, withMost: 0 }

export class SuspectGroups {
  /** Whether the store must be asked before more are claimed. */
  mustLook = true
  #found = NO_SUSPECTS
  /** The most that were queued since there were none. */
  #mostQueued = 0
  /** The crash count of those that run and are claimed next; 0 if none can be claimed. */
  #crashCount = 0
  /** How many may run at once, and whether more may with each that ends. */
  #limit = 1
  #grows = true
  #running = 0
  /** The crash count for which `#limit` has grown. */
  #begun = 0

  /** How many were queued when the store was asked last. */
  get queued(): number {
    return this.#found.queued
  }

  /** How many run on this node. */
  get running(): number {
    return this.#running
  }

  /** What the store found. */
  found(found: QueuedSuspects): void {
    this.mustLook = false
    this.#found = found
    this.#mostQueued = found.queued === 0 ? 0 : Math.max(this.#mostQueued, found.queued)
    if (this.#running === 0) this.#begin(found.mostCrashes)
  }

  /** Which suspects to claim now; null if none. */
  next(): SuspectGroup | null {
    const limit = this.#limit - this.#running
    return this.#crashCount === 0 || limit <= 0 ? null : { crashCount: this.#crashCount, limit }
  }

  /** A claim has returned this many suspects; fewer than the limit if there are no more with this crash count. */
  claimed(crashCount: number, limit: number, jobs: number): void {
    this.#running += jobs
    if (jobs === limit) return
    if (this.#running === 0) this.#begin(crashCount - 1)
    // Others run when these have ended.
    else this.#crashCount = 0
  }

  /** A suspect has ended here. @param isSettled whether it has its outcome; otherwise it was released, and is queued again */
  ended(isSettled: boolean): void {
    this.#running -= 1
    const most = Math.max(MAX_GROUP, Math.ceil(this.#mostQueued * MAX_PART))
    if (!isSettled) {
      // One that waits for a model server would come back at once, so nothing is claimed until the store is asked again.
      this.#crashCount = 0
      this.#found = { ...this.#found, queued: this.#found.queued + 1 }
    } else if (this.#grows) this.#limit = Math.min(this.#limit + 1, most)
    if (this.#running === 0 && isSettled && this.#crashCount === 0) this.mustLook = true
  }

  #begin(crashCount: number): void {
    const { mostCrashes, withMost } = this.#found
    const isNew = crashCount !== this.#begun
    this.#crashCount = crashCount
    if (!isNew || crashCount === 0) return
    this.#begun = crashCount
    // After a crash, those that it counted for are the ones with the most crashes.
    const isAfterCrash = crashCount > 1 && crashCount === mostCrashes
    this.#grows = !isAfterCrash
    this.#limit = isAfterCrash ? Math.max(1, Math.floor(withMost / 2)) : 1
  }
}
