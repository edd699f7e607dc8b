/**
 * Implements a map whose entries do not live long, such as the jobs in progress.
 *
 * A `Map` replaces its internal table whenever deleted entries have used it up, which would be after every few dozen jobs. Each
 * old table refers to the new one. Once V8 has moved one table to its old generation, that table keeps all later ones alive,
 * with their keys and values, until the next full collection. Every job with its texts would then be copied twice and kept. So
 * this class replaces the `Map` itself, and no map refers to the next one.
 */

/** The `Map` is replaced when the number of deletions exceeds the number of remaining entries by this many. */
const LEAST_DELETED = 32

export class TransientMap<Key, Value> {
  #map = new Map<Key, Value>()
  #deleted = 0

  get size(): number {
    return this.#map.size
  }

  get(key: Key): Value | undefined {
    return this.#map.get(key)
  }

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

  /** Returns a copy of the keys, in the order of their addition. Later changes do not affect the copy. */
  keys(): Key[] {
    return [...this.#map.keys()]
  }

  values(): Value[] {
    return [...this.#map.values()]
  }
}
