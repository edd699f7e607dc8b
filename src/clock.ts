/** Time is injected wherever it matters, so that tests move it by hand instead of sleeping. */
export interface Clock {
  /** Wall-clock milliseconds since 1970: for what is stored and shown. It may jump. */
  nowMs(): number
  /** Milliseconds that never go back: for durations, leases and deadlines. */
  steadyMs(): number
  /** Calls `callback` once after `ms`; the returned function cancels the timer. It does not keep the process alive. */
  after(ms: number, callback: () => void): () => void
  /**
   * Like `after`, but at a moment that other timers share, up to half a second earlier or later, and by less than half of `ms`.
   * For polls: waking an idle process once for several of them costs little more than for one. Absent where this makes no
   * difference.
   */
  readonly about?: (ms: number, callback: () => void) => () => void
}

/** The periods whose multiples polls share; the second is for shorter pauses. */
const SHARED_MS = [1000, 500]

/** A hundred thousand days: added to any time, this is still a whole number of milliseconds and fits into every database. */
const LONGEST_MS = 8_640_000_000_000
/** The longest delay of `setTimeout`; a longer timer would fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

/** Converts seconds from callers and settings to the whole milliseconds that timers and databases need. */
export function wholeMs(seconds: number): number {
  return Math.min(Math.round(seconds * 1000), LONGEST_MS)
}

/** The wall clock can jump, so it is checked again after at most this time. */
const LONGEST_LOOK_MS = 60_000

/**
 * Calls `callback` once, when the wall clock has reached this time, at once if it already has. The returned function cancels it.
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

/** Creates the `about` of a clock, with one timer for all callbacks that are due at the same moment. */
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
