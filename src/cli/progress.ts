/** Shows the progress of a long command on one line of a terminal. Without a terminal it prints nothing. */

const EVERY_MS = 1000

export class Progress {
  readonly #out: NodeJS.WriteStream
  readonly #startedMs = performance.now()
  #shownMs = this.#startedMs
  #shown = false

  constructor(out: NodeJS.WriteStream) {
    this.#out = out
  }

  show(count: number, unit = 'jobs'): void {
    const nowMs = performance.now()
    if (!this.#out.isTTY || nowMs < this.#shownMs + EVERY_MS) return
    this.#shownMs = nowMs
    this.#shown = true
    const rate = Math.round(count / ((nowMs - this.#startedMs) / 1000))
    this.#out.write(`\r${count} ${unit}, ${rate} a second\x1b[K`)
  }

  /** Clears the line for the next output. */
  end(): void {
    if (this.#shown) this.#out.write('\r\x1b[K')
  }
}
