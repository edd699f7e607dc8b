/**
 * A map whose entries live briefly, such as the jobs in progress.
 *
 * V8 replaces the table of a Map each time deleted entries have used it up, here every few dozen jobs, and the old table refers
 * to the new one. Once one of them is in the old generation, it keeps all later ones alive until the next full collection, each
 * with the keys and values that it had when it was replaced. In effect every job, with its texts and its answer, is copied twice
 * and promoted. So this class replaces the map itself, and no map refers to the next.
 */

/** A small map is replaced after this many deletions. */
const LEAST_DELETED = 32

export class TransientMap<Key, Value> {
  #map = new Map<Key, Value>()
  /** Deletions since the map was replaced. */
  #deleted = 0

  get size(): number {
    return this.#map.size
  }

  get(key: Key): Value | undefined {
    return this.#map.get(key)
  }

  /** Sets the value of a key, new or not. */
  set(key: Key, value: Value): void {
    this.#map.set(key, value)
  }

  delete(key: Key): void {
    if (!this.#map.delete(key)) return
    this.#deleted += 1
    if (this.#deleted < LEAST_DELETED + this.#map.size) return
    this.#map = new Map(this.#map)
    this.#deleted = 0
  }

  /** Returns a snapshot in the order of addition; later changes do not affect it. */
  keys(): Key[] {
    return [...this.#map.keys()]
  }

  /** Returns a snapshot of the values. */
  values(): Value[] {
    return [...this.#map.values()]
  }
}
