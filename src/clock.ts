/** Time is injected wherever it matters, so that tests move it by hand instead of sleeping. */
export interface Clock {
  /** Wall-clock milliseconds since 1970: for what is stored and shown. It may jump. */
  nowMs(): number
  /** Milliseconds that never go back: for durations, leases and deadlines. */
  steadyMs(): number
  /** Calls `callback` once after `ms`; the returned function cancels the timer. It does not keep the process alive. */
  after(ms: number, callback: () => void): () => void
}

/** A hundred thousand days: added to any moment it still is a whole number of milliseconds, and fits every database. */
const LONGEST_MS = 8_640_000_000_000
/** What `setTimeout` can wait for; a longer timer would fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

/** A duration as callers and settings give it, in the whole milliseconds that timers and databases take. */
export function wholeMs(seconds: number): number {
  return Math.min(Math.round(seconds * 1000), LONGEST_MS)
}

/** Resolves after `ms`. */
export function wait(clock: Pick<Clock, 'after'>, ms: number): Promise<void> {
  return new Promise((resolve) => {
    clock.after(ms, resolve)
  })
}

export const systemClock: Clock = {
  nowMs: Date.now,
  steadyMs: performance.now.bind(performance),
  after(ms, callback) {
    const timer = setTimeout(callback, Math.min(ms, LONGEST_TIMER_MS))
    timer.unref()
    return () => clearTimeout(timer)
  },
}
