/**
 * Provides a clock for tests that stands still until the test advances it.
 *
 *     const clock = new FakeClock()
 *     const answer = router.ask(question, signal)
 *     await clock.timerSet((ms) => ms >= 500) // the router has started to wait
 *     clock.advance(500)                      // and now it has waited
 */
import type { Clock } from '../src/clock.ts'

interface Timer {
  readonly at: number
  readonly callback: () => void
}

interface Watcher {
  readonly accept: (ms: number) => boolean
  readonly found: (ms: number) => void
}

export class FakeClock implements Clock {
  #wallMs: number
  #steadyMs = 0
  readonly #timers = new Set<Timer>()
  readonly #watchers = new Set<Watcher>()

  /** @param startMs the first time in Unix milliseconds, by default Friday 2026-01-02 03:04:05 UTC */
  constructor(startMs = Date.UTC(2026, 0, 2, 3, 4, 5)) {
    this.#wallMs = startMs
  }

  /** Returns whole milliseconds, as the system's clock does, even if the time has a fraction. */
  nowMs(): number {
    return Math.floor(this.#wallMs)
  }

  steadyMs(): number {
    return this.#steadyMs
  }

  after(ms: number, callback: () => void): () => void {
    const timer: Timer = { at: this.#steadyMs + Math.max(0, ms), callback }
    this.#timers.add(timer)
    for (const watcher of this.#watchers) {
      if (!watcher.accept(ms)) continue
      this.#watchers.delete(watcher)
      watcher.found(ms)
    }
    return () => this.#timers.delete(timer)
  }

  /**
   * Timers that are due run in order, each at its own time, and so do the timers that they set. Code that awaits a promise
   * continues only after this call has returned.
   */
  advance(ms: number): void {
    const end = this.#steadyMs + ms
    for (let timer = this.#next(); timer !== undefined && timer.at <= end; timer = this.#next()) {
      this.#timers.delete(timer)
      this.#move(Math.max(0, timer.at - this.#steadyMs))
      timer.callback()
    }
    this.#move(end - this.#steadyMs)
  }

  /**
   * Moves time forward as when a machine sleeps: each due timer fires once, at the end. Over days, `advance` would fire a timer
   * of one second hundreds of thousands of times.
   */
  skip(ms: number): void {
    this.#move(ms)
    this.advance(0)
  }

  /** Moves only the wall clock, forward or backward, as an administrator or a time server may. */
  jump(ms: number): void {
    this.#wallMs += ms
  }

  pending(): readonly number[] {
    return [...this.#timers].map((timer) => timer.at - this.#steadyMs).sort((a, b) => a - b)
  }

  /**
   * Resolves with the milliseconds of a pending timer that `accept` returns true for, or of the next such timer. The test then
   * knows that the tested code has started to wait.
   */
  timerSet(accept: (ms: number) => boolean = () => true): Promise<number> {
    const waiting = this.pending().find(accept)
    if (waiting !== undefined) return Promise.resolve(waiting)
    return new Promise((found) => {
      this.#watchers.add({ accept, found })
    })
  }

  #next(): Timer | undefined {
    let next: Timer | undefined
    for (const timer of this.#timers) {
      if (next === undefined || timer.at < next.at) next = timer
    }
    return next
  }

  #move(ms: number): void {
    this.#steadyMs += ms
    this.#wallMs += ms
  }
}
