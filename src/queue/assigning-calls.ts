/**
 * Calls to the store that may assign jobs to this node: claims, and creates that have reserved slots. The store may have
 * assigned a job long before its response arrives here; until then, the node does not know the job.
 */
export class AssigningCalls {
  /** In the order in which they began. */
  readonly #open = new Set<number>()
  #latest = 0

  /** The latest call so far. */
  get latest(): number {
    return this.#latest
  }

  begin(): number {
    this.#latest += 1
    this.#open.add(this.#latest)
    return this.#latest
  }

  /** The call has failed, or this node holds the jobs that it got. */
  end(call: number): void {
    this.#open.delete(call)
  }

  /** Whether this call and all earlier ones have ended. */
  haveEnded(call: number): boolean {
    const [oldest = Number.POSITIVE_INFINITY] = this.#open
    return oldest > call
  }
}
