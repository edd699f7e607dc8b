/** Derives the limited routes from the health of their targets, whenever that changes. */
import { NO_LIMITS, type RouteLimit } from './routes.ts'
import type { Candidates, Target } from './targets.ts'

export class RouteLimits {
  #limited: ReadonlyMap<string, RouteLimit> = NO_LIMITS
  #onChange: () => void = () => {}

  get limited(): ReadonlyMap<string, RouteLimit> {
    return this.#limited
  }

  watch(onChange: () => void): void {
    this.#onChange = onChange
  }

  /** The health of a target has changed. */
  update(candidates: Iterable<Candidates>): void {
    const limited = new Map<string, RouteLimit>()
    for (const { key, targets } of candidates) {
      const limit = limitOf(targets)
      if (limit !== null) limited.set(key, limit)
    }
    this.#limited = limited.size === 0 ? NO_LIMITS : limited
    this.#onChange()
  }
}

/** Null if any target is available: its jobs are then started like all others. */
function limitOf(targets: readonly Target[]): RouteLimit | null {
  const healths = targets.map(({ health }) => health)
  if (healths.length === 0 || healths.some(({ phase }) => phase === 'available')) return null
  const since = healths.map(({ unavailableSinceMs }) => unavailableSinceMs)
  return {
    allowance: healths.reduce((sum, { allowance }) => sum + allowance, 0),
    failedJobs: [...new Set(healths.flatMap(({ failedJobs }) => failedJobs))],
    unavailableSinceMs: latest(since),
    trouble: healths.findLast(({ trouble }) => trouble !== null)?.trouble ?? null,
  }
}

/** The latest start of several states; null if one of them does not apply. */
export function latest(times: readonly (number | null)[]): number | null {
  let found = Number.NEGATIVE_INFINITY
  for (const time of times) {
    if (time === null) return null
    found = Math.max(found, time)
  }
  return found
}
