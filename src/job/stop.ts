/**
 * Ends the execution of a job early, like an `AbortController`, but in one small object: every job has one, and the signal of
 * an `AbortController`, which is an event target, took a twentieth of a job's CPU time. Also has a pause that a signal can end.
 */
import type { Clock } from '../clock.ts'

/**
 * `timeout`: the run took too long. `deadline`: the job's deadline has passed. `release`: another node may finish the job.
 * `lost`: this node no longer holds the job.
 */
export type StopReason = 'timeout' | 'deadline' | 'release' | 'lost'

/** An object instead of a function, so that listening creates no closure for each call. */
export interface StopListener {
  onStop(): void
}

/** What executions use of a `Stop`. */
export interface StopSignal {
  /** Null until the job is stopped. */
  readonly reason: StopReason | null
  /** Calls the listener once when the job is stopped. If the job was stopped before, the listener is never called. */
  listen(listener: StopListener): void
  unlisten(listener: StopListener): void
  /** Pauses the timeout, if there is one, until `resume`. */
  pause(): void
  resume(): void
}

export class Stop implements StopSignal {
  reason: StopReason | null = null
  /** Usually there is only one listener, so a set is created only for a second one. */
  #listener: StopListener | null = null
  #others: Set<StopListener> | null = null
  #timeout: Timeout | null = null

  listen(listener: StopListener): void {
    if (this.#listener === null) this.#listener = listener
    else {
      this.#others ??= new Set()
      this.#others.add(listener)
    }
  }

  unlisten(listener: StopListener): void {
    if (this.#listener === listener) this.#listener = null
    else this.#others?.delete(listener)
  }

  /** Stops the job with this reason. Calls all listeners before it returns. Later calls do nothing. */
  now(reason: StopReason): void {
    if (this.reason !== null) return
    this.reason = reason
    this.#listener?.onStop()
    for (const listener of this.#others ?? []) listener.onStop()
  }

  /** Stops the job with the reason `timeout` after this time, without counting pauses. Call this only once. */
  startTimeout(clock: Pick<Clock, 'steadyMs' | 'after'>, ms: number): void {
    const onOver = () => this.now('timeout')
    this.#timeout = {
      clock,
      leftMs: ms,
      startedMs: clock.steadyMs(),
      onOver,
      cancel: clock.after(ms, onOver),
    }
  }

  pause(): void {
    const timeout = this.#timeout
    if (timeout === null) return
    timeout.cancel()
    timeout.leftMs -= timeout.clock.steadyMs() - timeout.startedMs
  }

  resume(): void {
    const timeout = this.#timeout
    if (timeout === null) return
    const { clock, leftMs, onOver } = timeout
    timeout.startedMs = clock.steadyMs()
    timeout.cancel = clock.after(Math.max(0, leftMs), onOver)
  }
}

interface Timeout {
  readonly clock: Pick<Clock, 'steadyMs' | 'after'>
  readonly onOver: () => void
  leftMs: number
  startedMs: number
  cancel: () => void
}

/**
 * Resolves to true after `ms`, and to false when the signal stops the job.
 * @param wakers during the pause, contains a function that ends the pause early, with true
 */
export function pause(
  clock: Clock,
  ms: number,
  signal: StopSignal,
  wakers?: Set<() => void>,
): Promise<boolean> {
  if (signal.reason !== null) return Promise.resolve(false)
  return new Promise((resolve) => {
    const end = (isOver: boolean) => {
      cancel()
      signal.unlisten(listener)
      wakers?.delete(wake)
      resolve(isOver)
    }
    const wake = () => end(true)
    const listener = { onStop: () => end(false) }
    const cancel = clock.after(ms, wake)
    signal.listen(listener)
    wakers?.add(wake)
  })
}
