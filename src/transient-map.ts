/**
 * A map whose entries live briefly, such as the jobs in progress.
 *
 * V8 replaces the table of a Map each time that deleted entries have used it up, here every few dozen jobs, and a replaced table
 * refers to the next one. Once one of them is in the old generation, it keeps all later ones alive until the next full
 * collection, each with every key and value that was in it when it was replaced: in effect every job, with its texts and its
 * answer, is copied twice and promoted. Here the map itself is replaced, and nothing refers from one to the next.
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

  /** Replaces the value of an existing key. */
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

  /** A snapshot in order of addition, which later additions and deletions do not change. */
  keys(): Key[] {
    return [...this.#map.keys()]
  }

  /** The same for the values. */
  values(): Value[] {
    return [...this.#map.values()]
  }
}
