/**
 * Ends the execution of a job early, like an `AbortController`, but in one small object, because every job has one: the event
 * target of an `AbortController` took a twentieth of a job's CPU time.
 */
import type { Clock } from '../clock.ts'

/** A job is stopped with `release` if another node may finish it, and with `lost` if this node no longer holds it. */
export type StopReason = 'timeout' | 'deadline' | 'release' | 'lost'

/** Listening to an object creates no closure for each call. */
export interface StopListener {
  onStop(): void
}

export interface StopSignal {
  readonly reason: StopReason | null
  /** The listener is called once, but never if the job was stopped before. */
  listen(listener: StopListener): void
  unlisten(listener: StopListener): void
  /** The timeout does not run until `resume`. */
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

  /** All listeners are called before this returns. Later calls do nothing. */
  now(reason: StopReason): void {
    if (this.reason !== null) return
    this.reason = reason
    this.#listener?.onStop()
    for (const listener of this.#others ?? []) listener.onStop()
  }

  /** Pauses do not count. Call this only once. */
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
 * Resolves to true after `ms`, and to false if the job is stopped.
 * @param wakers contains, during the pause, a function that ends the pause with true
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
