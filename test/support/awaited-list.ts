/** Keeps a list of entries that a test's parts add. The test can await a condition on the list, or a number of entries. */
export class AwaitedList<T> {
  readonly all: T[] = []
  readonly #watchers = new Set<() => void>()

  add(...entries: readonly T[]): void {
    this.all.push(...entries)
    for (const look of this.#watchers) look()
  }

  async when(holds: () => boolean): Promise<void> {
    if (holds()) return
    await new Promise<void>((resolve) => {
      const look = () => {
        if (!holds()) return
        this.#watchers.delete(look)
        resolve()
      }
      this.#watchers.add(look)
    })
  }

  async atLeast(count: number): Promise<readonly T[]> {
    await this.when(() => this.all.length >= count)
    return this.all
  }
}
