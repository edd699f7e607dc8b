/** Time, given to whatever waits, so that tests move it by hand; and what is made of it: pauses and deadlines. */
import { onAbort } from './on-abort.ts'

export interface Clock {
  /** Wall-clock milliseconds since 1970. */
  nowMs(): number
  /** Milliseconds that only ever grow. */
  steadyMs(): number
  /** Calls `act` once after `ms`; the returned function cancels that. */
  after(ms: number, act: () => void): () => void
}

/** Longer timers than this fire at once, in every runtime. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  steadyMs: () => performance.now(),
  after(ms, act) {
    const timer = setTimeout(act, Math.min(ms, LONGEST_TIMER_MS))
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
      deafen()
      resolve()
    })
    const deafen = onAbort(signal, () => {
      cancel()
      reject(signal?.reason)
    })
  })
}

/**
 * Runs with a signal that aborts after so many seconds, with the error of `tooLate` as its reason, or when the outer signal
 * does, with its reason. What is still under way when the run ends is aborted as well.
 */
export async function within<T>(
  seconds: number,
  tooLate: () => unknown,
  clock: Clock,
  outer: AbortSignal | undefined,
  run: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  outer?.throwIfAborted()
  const controller = new AbortController()
  const cancel =
    seconds === Number.POSITIVE_INFINITY
      ? () => {}
      : clock.after(seconds * 1000, () => controller.abort(tooLate()))
  const deafen = onAbort(outer, () => controller.abort(outer?.reason))
  try {
    return await run(controller.signal)
  } finally {
    cancel()
    deafen()
    controller.abort()
  }
}
