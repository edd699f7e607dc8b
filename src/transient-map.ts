/**
 * A map whose entries live briefly, such as the jobs in progress.
 *
 * V8 replaces the table of a Map each time that deleted entries have used it up, here every few dozen jobs. Once one replaced
 * table is in the old generation, it keeps the next ones alive until the next full collection, each with every value that was in
 * it when it was replaced: in effect every job, with its texts and its answer, is copied twice and promoted. Here a table
 * refers to a value by a cell, and `delete` empties the cell.
 */
interface Cell<Value> {
  value: Value | null
}

export class TransientMap<Key, Value extends object> {
  readonly #cells = new Map<Key, Cell<Value>>()

  get size(): number {
    return this.#cells.size
  }

  get(key: Key): Value | null {
    return this.#cells.get(key)?.value ?? null
  }

  /** Replaces the value of a key that is there. */
  set(key: Key, value: Value): void {
    const cell = this.#cells.get(key)
    if (cell === undefined) this.#cells.set(key, { value })
    else cell.value = value
  }

  delete(key: Key): void {
    const cell = this.#cells.get(key)
    if (cell === undefined) return
    cell.value = null
    this.#cells.delete(key)
  }

  keys(): Iterable<Key> {
    return this.#cells.keys()
  }

  /** In the order in which their keys were added. */
  *values(): Iterable<Value> {
    for (const { value } of this.#cells.values()) if (value !== null) yield value
  }
}
