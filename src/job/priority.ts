/** The priorities of jobs, and the queue of each. */

/** Highest first. */
export const PRIORITIES = ['high', 'normal', 'low'] as const
export type Priority = (typeof PRIORITIES)[number]

/**
 * While jobs of a lower priority wait, one of this many jobs that start is of that priority, so that it waits long but not
 * forever. This applies to each lower priority separately.
 */
const LOWER_SHARE = 20
const HIGHER = LOWER_SHARE - 1
/** Limits the credit that a priority cannot use. */
const MOST_CREDIT = 16 * HIGHER

/** Whether the first priority is higher than the second. */
export function isHigher(one: Priority, other: Priority): boolean {
  return PRIORITIES.indexOf(one) < PRIORITIES.indexOf(other)
}

/** Comes before the priority. No target can be named `!high`, because that has no slash. */
const MARK = ' !'

/**
 * The stored name of the queue for a route's jobs with this priority. The queue for normal ones has the name of the route, like
 * every queue of versions up to 0.3.
 */
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

/** Decides which lower priorities have waited so long that their next job goes first. */
export class LowerTurns {
  /**
   * The credit of each priority: 1 for each job of a higher priority that starts while jobs of this one wait, minus `HIGHER` for
   * each of its own. It is at most `MOST_CREDIT`, and 0 if none of its jobs wait when a job of a higher priority starts.
   */
  readonly #credit: Record<Priority, number> = { high: 0, normal: 0, low: 0 }

  /** How many jobs of this priority go before higher ones now. */
  due(priority: Priority): number {
    return Math.floor(this.#credit[priority] / HIGHER)
  }

  /**
   * Records that jobs of this priority start.
   * @param waits whether jobs of a lower priority wait
   */
  started(priority: Priority, jobs: number, waits: (lower: Priority) => boolean): void {
    this.#credit[priority] = Math.max(0, this.#credit[priority] - jobs * HIGHER)
    for (const lower of PRIORITIES) {
      if (!isHigher(priority, lower)) continue
      this.#credit[lower] = waits(lower) ? Math.min(this.#credit[lower] + jobs, MOST_CREDIT) : 0
    }
  }
}
