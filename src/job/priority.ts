/** The priorities of jobs, the names of their queues, and how jobs of lower priorities get a share. */

/** The highest priority comes first. */
export const PRIORITIES = ['high', 'normal', 'low'] as const
export type Priority = (typeof PRIORITIES)[number]

/**
 * Of this many jobs that start while jobs of a lower priority wait, one has that lower priority, so that its jobs do not wait
 * forever. Each lower priority gets this share.
 */
const LOWER_SHARE = 20
const HIGHER = LOWER_SHARE - 1
/** Limits the credit that a priority gathers while its jobs cannot start. */
const MOST_CREDIT = 16 * HIGHER

export function isHigher(one: Priority, other: Priority): boolean {
  return PRIORITIES.indexOf(one) < PRIORITIES.indexOf(other)
}

/** Separates the route from the priority. No target has the name `!high`, because names of targets contain a slash. */
const MARK = ' !'

/**
 * Returns the stored name of the queue for jobs of this route and priority. The queue for `normal` has the name of the route,
 * like every queue of versions up to 0.3.
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

/** Decides when jobs of lower priorities go first, because they have waited long enough. */
export class LowerTurns {
  /**
   * The credit of each priority. It grows by 1 for each job of a higher priority that starts while jobs of this priority wait,
   * up to `MOST_CREDIT`, and falls by `HIGHER` for each job of this priority that starts. It becomes 0 if a job of a higher
   * priority starts while none of this priority waits.
   */
  readonly #credit: Record<Priority, number> = { high: 0, normal: 0, low: 0 }

  /** Returns how many jobs of this priority may now go before those of higher priorities. */
  due(priority: Priority): number {
    return Math.floor(this.#credit[priority] / HIGHER)
  }

  /** @param waits returns whether jobs of a lower priority wait */
  started(priority: Priority, jobs: number, waits: (lower: Priority) => boolean): void {
    this.#credit[priority] = Math.max(0, this.#credit[priority] - jobs * HIGHER)
    for (const lower of PRIORITIES) {
      if (!isHigher(priority, lower)) continue
      this.#credit[lower] = waits(lower) ? Math.min(this.#credit[lower] + jobs, MOST_CREDIT) : 0
    }
  }
}
