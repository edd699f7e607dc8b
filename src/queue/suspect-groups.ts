/**
 * Decides how many suspects run at once. A suspect was running when its node crashed, so it may have caused the crash.
 *
 * At first, one suspect runs. Each settled suspect lets one more run at once, so the group doubles while nothing crashes. After
 * a crash of suspects, at most half of those that ran in it run at once, and the group does not grow. Otherwise a poison job,
 * which crashes its node, would soon run with most of the others again. Because each crash halves the group, at most eight
 * crashes find one poison job among 256 suspects.
 *
 * Suspects with the highest crash count run first, without others. None of this is stored: after a crash, the crash counts show
 * a new process how large the last group was.
 */
import type { QueuedSuspects } from '../store/store.ts'

/** A group has at most MAX_GROUP jobs or MAX_PART of all suspects, whichever is more. */
const MAX_GROUP = 64
const MAX_PART = 1 / 4

export interface SuspectGroup {
  readonly crashCount: number
  readonly limit: number
}

export const NO_SUSPECTS: QueuedSuspects = { queued: 0, mostCrashes: 0, withMost: 0 }

export class SuspectGroups {
  mustLook = true
  #found = NO_SUSPECTS
  /** The largest number of suspects that were queued at once since there were none. */
  #mostQueued = 0
  /** The suspects that run, and those that are claimed next, have this crash count; 0 if none can be claimed. */
  #crashCount = 0
  /** At most `#limit` suspects run at once. If `#grows`, the limit grows when one of them is settled. */
  #limit = 1
  #grows = true
  #running = 0
  /** `#limit` was set for this crash count. */
  #begun = 0

  get queued(): number {
    return this.#found.queued
  }

  get running(): number {
    return this.#running
  }

  found(found: QueuedSuspects): void {
    this.mustLook = false
    this.#found = found
    this.#mostQueued = found.queued === 0 ? 0 : Math.max(this.#mostQueued, found.queued)
    if (this.#running === 0) this.#begin(found.mostCrashes)
  }

  next(): SuspectGroup | null {
    const limit = this.#limit - this.#running
    return this.#crashCount === 0 || limit <= 0 ? null : { crashCount: this.#crashCount, limit }
  }

  /**
   * Records the result of a claim. Fewer suspects than the limit mean that no more with this crash count can be claimed now.
   */
  claimed(crashCount: number, limit: number, jobs: number): void {
    this.#running += jobs
    if (jobs === limit) return
    if (this.#running === 0) this.#begin(crashCount - 1)
    // Suspects with lower crash counts run when the running ones have ended.
    else this.#crashCount = 0
  }

  /** @param isSettled whether the suspect has its outcome; otherwise it was released and is queued again */
  ended(isSettled: boolean): void {
    this.#running -= 1
    const most = Math.max(MAX_GROUP, Math.ceil(this.#mostQueued * MAX_PART))
    if (!isSettled) {
      // The job waits for a model server and would be claimed again at once. So no suspect is claimed before the next query.
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
    // After a crash, the jobs that ran in it have the highest crash count.
    const isAfterCrash = crashCount > 1 && crashCount === mostCrashes
    this.#grows = !isAfterCrash
    this.#limit = isAfterCrash ? Math.max(1, Math.floor(withMost / 2)) : 1
  }
}
