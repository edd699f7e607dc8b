/** The clock, which tests replace, and functions based on it: pauses and timeouts. */
import { onAbort } from './on-abort.ts'

export interface Clock {
  /** Wall-clock milliseconds since 1970. */
  nowMs(): number
  /** Milliseconds of a monotonic clock. */
  steadyMs(): number
  /** Calls `callback` once after `ms`; the returned function cancels the timer. */
  after(ms: number, callback: () => void): () => void
}

/** Longer timers fire immediately, in every runtime. */
const MAX_TIMER_MS = 2 ** 31 - 1

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  steadyMs: () => performance.now(),
  after(ms, callback) {
    const timer = setTimeout(callback, Math.min(ms, MAX_TIMER_MS))
    return () => clearTimeout(timer)
  },
}

/** Resolves after `ms`; rejects with the signal's reason as soon as it aborts. */
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
  /** Ends the timeout, and aborts what is still running. */
  end(): void
}

/**
 * Creates a signal that aborts after `seconds`, with the error of `timeoutError` as its reason, or when the outer signal aborts,
 * with that signal's reason. Throws that reason if the outer signal has aborted already.
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

/** Runs `run` with a timeout, which ends with it. */
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
