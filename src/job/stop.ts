/**
 * How a run is told to end before its time: an `AbortController` and its signal in one small object. Every job has one
 * and hardly any is used, and the platform's, which is an event target, took a twentieth of the CPU of a job.
 */

/**
 * `deadline`: its time is over; `give back`: this node will not finish it, another may; `lost`: it is not this node's to
 * finish any more.
 */
export type StopReason = 'deadline' | 'give back' | 'lost'

/** An object rather than a function, so that whoever listens for each call needs no closure. */
export interface StopListener {
  onStop(): void
}

/** What those who may be stopped see of it. */
export interface StopSignal {
  /** Null until it is stopped. */
  readonly reason: StopReason | null
  /** Has the listener told, once, when it stops; it is not told of a stop that has been. */
  listen(listener: StopListener): void
  unlisten(listener: StopListener): void
}

export class Stop implements StopSignal {
  #reason: StopReason | null = null
  #listeners: Set<StopListener> | null = null

  get reason(): StopReason | null {
    return this.#reason
  }

  listen(listener: StopListener): void {
    this.#listeners ??= new Set()
    this.#listeners.add(listener)
  }

  unlisten(listener: StopListener): void {
    this.#listeners?.delete(listener)
  }

  /** Tells all listeners before it returns. The first reason stands. */
  now(reason: StopReason): void {
    if (this.#reason !== null) return
    this.#reason = reason
    for (const listener of this.#listeners ?? []) listener.onStop()
  }
}
