/** The priority of a job, and the queue that a job with it joins. */

/** Highest first. */
export const PRIORITIES = ['high', 'normal', 'low'] as const
export type Priority = (typeof PRIORITIES)[number]

/**
 * While jobs of lower priority wait, one of this many that start is one of them: they wait for long, but not forever. For each
 * lower priority by itself.
 */
const LOWER_SHARE = 20
const HIGHER = LOWER_SHARE - 1
/** What it cannot use does not add up without end. */
const MOST_CREDIT = 16 * HIGHER

/** Whether the first priority is higher than the second. */
export function isHigher(one: Priority, other: Priority): boolean {
  return PRIORITIES.indexOf(one) < PRIORITIES.indexOf(other)
}

/** No target is named like this, because it has no slash. */
const MARK = ' !'

/**
 * The queue of a route's jobs with this priority, as it is stored with queued jobs. That of normal ones has the route's own name,
 * as all have that versions up to 0.3 queued.
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

/** Which lower priorities have waited for so long that their next job goes first. */
export class LowerTurns {
  /** Starts of higher ones that this priority has waited for; it gives `HIGHER` of them for each of its own. */
  readonly #credit: Record<Priority, number> = { high: 0, normal: 0, low: 0 }

  /** How many jobs of this priority go before higher ones now. */
  due(priority: Priority): number {
    return Math.floor(this.#credit[priority] / HIGHER)
  }

  /** Jobs of this priority start. @param waits whether jobs of a lower one wait */
  started(priority: Priority, jobs: number, waits: (lower: Priority) => boolean): void {
    this.#credit[priority] = Math.max(0, this.#credit[priority] - jobs * HIGHER)
    for (const lower of PRIORITIES) {
      if (!isHigher(priority, lower)) continue
      this.#credit[lower] = waits(lower) ? Math.min(this.#credit[lower] + jobs, MOST_CREDIT) : 0
    }
  }
}
