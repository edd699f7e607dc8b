/**
 * Time that stands still until a test moves it.
 *
 *     const clock = new FakeClock()
 *     const answer = router.ask(question, signal)
 *     await clock.timerSet((ms) => ms >= 500) // the router has begun to wait
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

  /** The default is an ordinary moment, Friday 2026-01-02 03:04:05 UTC. */
  constructor(startMs = Date.UTC(2026, 0, 2, 3, 4, 5)) {
    this.#wallMs = startMs
  }

  /** Whole milliseconds, as the system's clock has them, also between timers of a fraction. */
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
   * Moves time on. Timers that fall due run in order, each at its own moment, those included that they set on the way.
   * Promises that they settle go on after this call returns.
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
   * Moves time on as the sleep of a machine does: each timer that fell due meanwhile fires once, at the end. For days,
   * in which `advance` fires what runs every second some hundred thousand times.
   */
  skip(ms: number): void {
    this.#move(ms)
    this.advance(0)
  }

  /** Moves the wall clock alone, forwards or backwards, as an administrator or a time server may. */
  jump(ms: number): void {
    this.#wallMs += ms
  }

  /** Milliseconds until each waiting timer, soonest first. */
  pending(): readonly number[] {
    return [...this.#timers].map((timer) => timer.at - this.#steadyMs).sort((a, b) => a - b)
  }

  /**
   * Resolves with the milliseconds of a timer that `accept` takes: one that waits already, or else the next one set. A
   * test awaits it to know that the code under test has begun to wait.
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
