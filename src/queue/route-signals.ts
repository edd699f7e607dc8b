/** How many jobs of each route are queued, or wait on this node for a model server, for metrics and autoscalers. */
import { jobIdMs } from '../job/job-id.ts'
import { readQueueName } from '../job/priority.ts'
import type { Depth, QueueDepth } from '../store/store.ts'
import { BUDGET_QUEUES } from '../store/usage-store.ts'
import type { WaitingJobs } from '../upstreams/routes.ts'

export interface RouteSignal {
  /** The targets in the order in which they are tried; empty if they are not known. */
  readonly targets: readonly string[]
  /** Queued jobs, on all nodes. */
  readonly queued: number
  /** Jobs of this node that wait for a slot or a rate limit of a model server. */
  readonly waiting: number
  /** When the oldest of the queued and waiting jobs was created, Unix time in milliseconds; null if there is none. */
  readonly oldestMs: number | null
}

/** @param waiting the waiting jobs of all routes of this node */
export function routeSignals(queues: readonly QueueDepth[], waiting: readonly WaitingJobs[]): RouteSignal[] {
  const found = new Map(
    waiting.map(({ route, jobIds }) => [route, { queued: 0, waiting: jobIds.size, ids: [...jobIds] }]),
  )
  for (const { route: name, jobs, oldestId } of queues) {
    // Jobs that wait for the budget of their account need no model server.
    if (BUDGET_QUEUES.includes(name)) continue
    const { route } = readQueueName(name)
    // A node with other settings may have queued jobs for targets that this node does not know.
    const of = found.get(route) ?? { queued: 0, waiting: 0, ids: [] }
    of.queued += jobs
    of.ids.push(oldestId)
    found.set(route, of)
  }
  return [...found].map(([route, { queued, waiting, ids }]) => ({
    targets: route.split(' ').filter((target) => target !== ''),
    queued,
    waiting,
    oldestMs: ids.length === 0 ? null : Math.min(...ids.map(jobIdMs)),
  }))
}

/** Leaves out jobs that wait for the budget of their account: no node can run them, perhaps until the next month. */
export function withoutBudgetQueues(depth: Depth, queues: readonly QueueDepth[]): Depth {
  const others = queues.filter(({ route }) => !BUDGET_QUEUES.includes(route))
  if (others.length === queues.length) return depth
  const createdMs = others.map(({ oldestId }) => jobIdMs(oldestId))
  return {
    ...depth,
    waiting: others.reduce((sum, { jobs }) => sum + jobs, 0),
    oldestCreatedAtMs: createdMs.length === 0 ? null : Math.min(...createdMs),
  }
}
