/** The priorities of jobs, the names of their queues, and how jobs of lower priorities get a share. */

/** The highest priority comes first. */
export const PRIORITIES = ['high', 'normal', 'low'] as const
export type Priority = (typeof PRIORITIES)[number]

/**
 * While jobs of a lower priority wait, one of this many jobs that start has that priority, so that they do not wait forever.
 */
const LOWER_SHARE = 20
const HIGHER = LOWER_SHARE - 1
/** A priority cannot gather more credit than this while its jobs cannot start. */
const MOST_CREDIT = 16 * HIGHER

export function isHigher(one: Priority, other: Priority): boolean {
  return PRIORITIES.indexOf(one) < PRIORITIES.indexOf(other)
}

/** Separates the name of a route from a priority. Names of targets contain a slash, so no route ends like this. */
const MARK = ' !'

/** The queue for `normal` has the name of its route, as all queues had in versions up to 0.3. */
export function queueName(route: string, priority: Priority = 'normal'): string {
  return priority === 'normal' ? route : route + MARK + priority
}

export function readQueueName(name: string): { readonly route: string; readonly priority: Priority } {
  const end = name.lastIndexOf(MARK)
  const priority = PRIORITIES.find((one) => end >= 0 && name.endsWith(MARK + one))
  return priority === undefined
    ? { route: name, priority: 'normal' }
    : { route: name.slice(0, end), priority }
}

/** Decides when jobs of lower priorities have waited long enough to go first. */
export class LowerTurns {
  /**
   * The credit grows by 1 for each job of a higher priority that starts while jobs of this one wait, and falls by `HIGHER` for
   * each job of this one that starts. If a higher job starts while none of this one waits, the credit becomes 0.
   */
  readonly #credit: Record<Priority, number> = { high: 0, normal: 0, low: 0 }

  /** Returns how many jobs of the priority may now go before those of higher ones. */
  due(priority: Priority): number {
    return Math.floor(this.#credit[priority] / HIGHER)
  }

  started(priority: Priority, jobs: number, waits: (lower: Priority) => boolean): void {
    this.#credit[priority] = Math.max(0, this.#credit[priority] - jobs * HIGHER)
    for (const lower of PRIORITIES) {
      if (!isHigher(priority, lower)) continue
      this.#credit[lower] = waits(lower) ? Math.min(this.#credit[lower] + jobs, MOST_CREDIT) : 0
    }
  }
}
