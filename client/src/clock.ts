/** Defines the clock, which tests can replace, and pauses and timeouts that use it. */
import { onAbort } from './on-abort.ts'

export interface Clock {
  /** Returns the wall-clock time in milliseconds since 1970. */
  nowMs(): number
  /** Returns milliseconds of a clock that never goes back. */
  steadyMs(): number
  /** Calls `callback` once after `ms`. Returns a function that cancels the timer. */
  after(ms: number, callback: () => void): () => void
}

/** Longer delays are shortened to this. Otherwise, the timer would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  steadyMs: () => performance.now(),
  after(ms, callback) {
    const timer = setTimeout(callback, Math.min(ms, MAX_TIMER_MS))
    return () => clearTimeout(timer)
  },
}

/** Resolves after `ms`. Rejects with the signal's reason as soon as the signal aborts. */
export function pause(ms: number, clock: Clock, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason)
      return
    }
    const cancel = clock.after(ms, () => {
      unsubscribe()
      resolve()
    })
    const unsubscribe = onAbort(signal, () => {
      cancel()
      reject(signal?.reason)
    })
  })
}

export interface TimeoutScope {
  readonly signal: AbortSignal
  end(): void
}

/**
 * The returned signal aborts after `seconds`, with the error of `timeoutError` as its reason. It also aborts when the outer
 * signal aborts, with that signal's reason, and when `end` is called. Throws if the outer signal has already aborted.
 */
export function timeoutScope(
  seconds: number,
  timeoutError: () => unknown,
  clock: Clock,
  outer: AbortSignal | undefined,
): TimeoutScope {
  outer?.throwIfAborted()
  const controller = new AbortController()
  const cancel =
    seconds === Number.POSITIVE_INFINITY
      ? () => {}
      : clock.after(seconds * 1000, () => controller.abort(timeoutError()))
  const unsubscribe = onAbort(outer, () => controller.abort(outer?.reason))
  const end = () => {
    cancel()
    unsubscribe()
    controller.abort()
  }
  return { signal: controller.signal, end }
}

/** Calls `run` with a signal that aborts after `seconds`. The timeout ends when `run` ends. */
export async function withTimeout<T>(
  seconds: number,
  timeoutError: () => unknown,
  clock: Clock,
  outer: AbortSignal | undefined,
  run: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { signal, end } = timeoutScope(seconds, timeoutError, clock, outer)
  try {
    return await run(signal)
  } finally {
    end()
  }
}
