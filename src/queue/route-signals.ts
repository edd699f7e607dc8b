/** Reports how many jobs of each route are queued, or wait on this node for a model server, for metrics and autoscalers. */
import { jobIdMs } from '../job/job-id.ts'
import { readQueueName } from '../job/priority.ts'
import type { Depth, QueueDepth } from '../store/store.ts'
import { BUDGET_QUEUES } from '../store/usage-store.ts'
import type { WaitingJobs } from '../upstreams/routes.ts'

export interface RouteSignal {
  /** The targets are in the order in which they are tried. The list is empty if they are not known. */
  readonly targets: readonly string[]
  /** Counts the queued jobs of all nodes. */
  readonly queued: number
  /** Counts the jobs of this node that wait for a slot or a rate limit of a model server. */
  readonly waiting: number
  /** The oldest of the queued and waiting jobs was created at this time (Unix time); null if there are none. */
  readonly oldestMs: number | null
}

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

/** Leaves out jobs that wait for the budget of their account, because no node can run them, perhaps until the next month. */
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
