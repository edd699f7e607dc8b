/**
 * Writes what was added, all of it together, and one write at a time. What is added during a write goes into the next one. No
 * caller waits for a write.
 */
export class GatheredWrites<Item> {
  readonly #write: (items: readonly Item[]) => Promise<unknown>
  readonly #onError: (error: unknown) => void
  /** By key: what is not written yet. */
  readonly #items = new Map<string, Item>()
  #isWriting = false

  constructor(write: (items: readonly Item[]) => Promise<unknown>, onError: (error: unknown) => void) {
    this.#write = write
    this.#onError = onError
  }

  has(key: string): boolean {
    return this.#items.has(key)
  }

  /** If the write fails, the item stays here until the write after the next `add`. */
  add(key: string, item: Item): void {
    this.#items.set(key, item)
    if (!this.#isWriting) void this.#writeAll()
  }

  async #writeAll(): Promise<void> {
    this.#isWriting = true
    try {
      while (this.#items.size > 0) {
        const some = [...this.#items]
        await this.#write(some.map(([, item]) => item))
        for (const [key] of some) this.#items.delete(key)
      }
    } catch (error) {
      this.#onError(error)
    } finally {
      this.#isWriting = false
    }
  }
}
