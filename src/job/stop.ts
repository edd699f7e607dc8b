/**
 * Ends the execution of a job early: an `AbortController` and its signal in one small object. Every job has one and hardly
 * any is used; the platform's own, which is an event target, took a twentieth of the CPU of a job.
 */

/**
 * `deadline`: its time is over; `release`: this node will not finish it, another node may; `lost`: this node no longer holds
 * the job.
 */
export type StopReason = 'deadline' | 'release' | 'lost'

/** An object rather than a function, so that listening for each call needs no closure. */
export interface StopListener {
  onStop(): void
}

/** What will stop an execution when its time is over. */
export interface Deadline {
  /** Time does not count until `resume`. */
  pause(): void
  resume(): void
}

/** The side of it that the execution sees. */
export interface StopSignal {
  /** Null if there is none. */
  readonly deadline: Deadline | null
  /** Null until it is stopped. */
  readonly reason: StopReason | null
  /** Calls the listener once when it stops, but not for a stop in the past. */
  listen(listener: StopListener): void
  unlisten(listener: StopListener): void
}

export class Stop implements StopSignal {
  reason: StopReason | null = null
  deadline: Deadline | null = null
  #listeners: Set<StopListener> | null = null

  listen(listener: StopListener): void {
    this.#listeners ??= new Set()
    this.#listeners.add(listener)
  }

  unlisten(listener: StopListener): void {
    this.#listeners?.delete(listener)
  }

  /** Calls all listeners before it returns. The first reason stands. */
  now(reason: StopReason): void {
    if (this.reason !== null) return
    this.reason = reason
    for (const listener of this.#listeners ?? []) listener.onStop()
  }
}
