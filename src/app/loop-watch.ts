/**
 * Decides from another thread whether an event loop hangs, that is, has stopped reporting. Only time during which the
 * watching thread ran counts, because a stopped process, or a sleeping machine, stops both.
 */

/** How often the loop reports, and how often the watch looks. */
export const REPORT_EVERY_MS = 1000

export class LoopWatch {
  readonly #hangMs: number
  #reports = 0
  #lookedMs: number
  #silentMs = 0

  constructor(hangMs: number, steadyMs: number) {
    this.#hangMs = hangMs
    this.#lookedMs = steadyMs
  }

  /** Whether the loop hangs. @param reports how often it has reported so far */
  hangs(reports: number, steadyMs: number): boolean {
    const passedMs = Math.min(steadyMs - this.#lookedMs, 2 * REPORT_EVERY_MS)
    this.#lookedMs = steadyMs
    this.#silentMs = reports === this.#reports ? this.#silentMs + passedMs : 0
    this.#reports = reports
    return this.#silentMs >= this.#hangMs
  }
}
