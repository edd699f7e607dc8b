/** Holds the jobs of a wait that have not finished, at first in the order of the caller's IDs. IDs may arrive over time. */

/** The IDs are known at once, or arrive over time. */
export type JobIds = Iterable<string> | AsyncIterable<string>

export class OpenJobs {
  readonly #open = new Set<string>()
  #isComplete = false
  #error: unknown
  #hasFailed = false
  readonly #onChange: (() => void)[] = []

  /** @param signal ends the reading of IDs that arrive over time */
  constructor(ids: JobIds, signal: AbortSignal) {
    if (Symbol.asyncIterator in ids) void this.#readAll(ids, signal)
    else {
      for (const id of ids) this.#open.add(id)
      this.#isComplete = true
    }
  }

  get size(): number {
    return this.#open.size
  }

  get isComplete(): boolean {
    return this.#isComplete
  }

  first(count: number): string[] {
    const found: string[] = []
    for (const id of this.#open) {
      if (found.length === count) break
      found.push(id)
    }
    return found
  }

  /** Returns whether the job was still in the list. */
  delete(id: string): boolean {
    return this.#open.delete(id)
  }

  moveToEnd(ids: readonly string[]): void {
    for (const id of ids) if (this.#open.delete(id)) this.#open.add(id)
  }

  /** Removes and returns the first job. Resolves with null if there will be no more jobs. Rejects like `some`. */
  async take(signal: AbortSignal): Promise<string | null> {
    if (!(await this.some(signal))) return null
    const [id] = this.#open
    if (id === undefined) return this.take(signal)
    this.#open.delete(id)
    return id
  }

  /**
   * Resolves with true when the list has a job, and with false if there will be no more jobs. Rejects with the error of the
   * iterable of IDs, or with the signal's reason.
   */
  async some(signal: AbortSignal): Promise<boolean> {
    for (;;) {
      signal.throwIfAborted()
      if (this.#hasFailed) throw this.#error
      if (this.#open.size > 0) return true
      if (this.#isComplete) return false
      await new Promise<void>((resolve) => this.#onChange.push(resolve))
    }
  }

  /** Never rejects. `some` throws the error of the iterable. */
  async #readAll(ids: AsyncIterable<string>, signal: AbortSignal): Promise<void> {
    const wake = () => this.#wake()
    signal.addEventListener('abort', wake, { once: true })
    try {
      for await (const id of ids) {
        if (signal.aborted) return
        this.#open.add(id)
        this.#wake()
      }
    } catch (error) {
      this.#error = error
      this.#hasFailed = true
    } finally {
      signal.removeEventListener('abort', wake)
      this.#isComplete = true
      this.#wake()
    }
  }

  #wake(): void {
    for (const resolve of this.#onChange.splice(0)) resolve()
  }
}
