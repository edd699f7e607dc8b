/** Defines the clock that is passed to all code that depends on time, so that tests can advance it instead of sleeping. */
export interface Clock {
  /** Returns milliseconds since 1970, for times that are stored or shown. This clock can jump. */
  nowMs(): number
  /** Returns milliseconds that never go back, for durations, leases and deadlines. */
  steadyMs(): number
  /** Calls `callback` once after `ms`. Returns a function that cancels the timer. The timer does not keep the process alive. */
  after(ms: number, callback: () => void): () => void
  /**
   * Works like `after`, but shares its moment with other timers, because waking an idle process once for several polls costs
   * little more than for one. The moment is up to half a second earlier or later, but by at most half of `ms`. Clocks for which
   * this makes no difference lack the function.
   */
  readonly about?: (ms: number, callback: () => void) => () => void
}

/** Timers of `about` end at multiples of a period: the first of these that is not longer than the timer. */
const SHARED_MS = [1000, 500]

/** Added to any time, these hundred thousand days result in a whole number of milliseconds that fits into every database. */
const LONGEST_MS = 8_640_000_000_000
/** Longer delays are shortened to this. Otherwise, `setTimeout` would call back at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

/** Converts seconds in requests and settings to whole milliseconds, because timers and databases need whole numbers. */
export function wholeMs(seconds: number): number {
  return Math.min(Math.round(seconds * 1000), LONGEST_MS)
}

/** The wall clock can jump, so a timer for a wall-clock time checks the clock at least this often. */
const LONGEST_LOOK_MS = 60_000

/**
 * Calls `callback` once when the wall clock has reached the time, or at once if the time has passed. Returns a function that
 * cancels the call.
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

/**
 * Rounds the time of each callback, so that several share one timer. Callbacks due in less than 500 ms keep their exact times
 * and get their own timers.
 */
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
