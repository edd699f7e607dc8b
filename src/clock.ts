/** Time, which is passed to all code that depends on it, so that tests can advance it instead of sleeping. */
export interface Clock {
  /** Wall-clock time in milliseconds since 1970, for times that are stored or shown. It can jump. */
  nowMs(): number
  /** Milliseconds that never go back, for durations, leases and deadlines. */
  steadyMs(): number
  /** Calls `callback` once after `ms`. Returns a function that cancels the timer. The timer does not keep the process alive. */
  after(ms: number, callback: () => void): () => void
  /**
   * Like `after`, but at a moment that it shares with other timers: up to half a second earlier or later, and by less than half
   * of `ms`. It is for polling, because waking an idle process once for several polls costs little more than for one. Absent in
   * clocks for which this makes no difference.
   */
  readonly about?: (ms: number, callback: () => void) => () => void
}

/** Timers of `about` end at multiples of one of these periods: the first that is not longer than the timer. */
const SHARED_MS = [1000, 500]

/** A hundred thousand days. Added to any time, it results in a whole number of milliseconds that fits into every database. */
const LONGEST_MS = 8_640_000_000_000
/** The longest delay of `setTimeout`, which would call back at once after a longer one. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

/** Converts seconds in requests and settings to whole milliseconds, which timers and databases need. */
export function wholeMs(seconds: number): number {
  return Math.min(Math.round(seconds * 1000), LONGEST_MS)
}

/** How often a timer for a wall-clock time checks the time, because the wall clock can jump. */
const LONGEST_LOOK_MS = 60_000

/**
 * Calls `callback` once when the wall clock has reached this time, at once if it already has. Returns a function that cancels
 * the call.
 */
export function atTime(
  clock: Pick<Clock, 'nowMs' | 'after'>,
  timeMs: number,
  callback: () => void,
): () => void {
  let cancel = () => {}
  const look = () => {
    const leftMs = timeMs - clock.nowMs()
    if (leftMs <= 0) callback()
    else cancel = clock.after(Math.min(leftMs, LONGEST_LOOK_MS), look)
  }
  look()
  return () => cancel()
}

export function wait(clock: Pick<Clock, 'after'>, ms: number): Promise<void> {
  return new Promise((resolve) => {
    clock.after(ms, resolve)
  })
}

const realClock = {
  nowMs: Date.now,
  steadyMs: performance.now.bind(performance),
  after(ms: number, callback: () => void) {
    const timer = setTimeout(callback, Math.min(ms, LONGEST_TIMER_MS))
    timer.unref()
    return () => clearTimeout(timer)
  },
}

export const systemClock: Clock = { ...realClock, about: sharedMoments(realClock) }

/** Creates the function `about` of a clock. All callbacks that are due at the same moment share one timer. */
export function sharedMoments(clock: Pick<Clock, 'steadyMs' | 'after'>): NonNullable<Clock['about']> {
  const dueAt = new Map<number, Set<{ readonly callback: () => void }>>()
  const addMoment = (atMs: number, nowMs: number) => {
    const due = new Set<{ readonly callback: () => void }>()
    dueAt.set(atMs, due)
    clock.after(atMs - nowMs, () => {
      dueAt.delete(atMs)
      for (const { callback } of due) callback()
    })
    return due
  }
  return (ms, callback) => {
    const stepMs = SHARED_MS.find((step) => step <= ms)
    if (stepMs === undefined) return clock.after(ms, callback)
    const nowMs = clock.steadyMs()
    const atMs = Math.round((nowMs + ms) / stepMs) * stepMs
    const due = dueAt.get(atMs) ?? addMoment(atMs, nowMs)
    const entry = { callback }
    due.add(entry)
    return () => due.delete(entry)
  }
}
