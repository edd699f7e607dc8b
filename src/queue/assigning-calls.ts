/**
 * Calls to the store that may assign jobs to this node: claims, and requests that have reserved slots. The store may assign a job
 * long before its response arrives here; until then, the node does not know of the job.
 */
export class AssigningCalls {
  /** In the order in which they started. */
  readonly #open = new Set<number>()
  #latest = 0

  /** The number of the latest call. */
  get latest(): number {
    return this.#latest
  }

  begin(): number {
    this.#latest += 1
    this.#open.add(this.#latest)
    return this.#latest
  }

  /** Ends a call that has failed, or whose jobs this node now holds. */
  end(call: number): void {
    this.#open.delete(call)
  }

  /** Whether this call and all earlier ones have ended. */
  haveEnded(call: number): boolean {
    const [oldest = Number.POSITIVE_INFINITY] = this.#open
    return oldest > call
  }
}
