/** Makes what this node is to the others on its database: its lease, and its ear for jobs that run elsewhere. */
import { type Clock, wholeMs } from '../clock.ts'
import type { Settings } from '../config/settings.ts'
import { CancellationPoller } from '../queue/cancellation.ts'
import type { Hands } from '../queue/enqueue.ts'
import { NodeLease } from '../queue/node-lease.ts'
import type { PendingResponses } from '../queue/pending-responses.ts'
import { RemoteResults } from '../queue/remote-results.ts'
import type { Worker } from '../queue/worker.ts'
import type { Store } from '../store/store.ts'
import { errorFields, type Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'

export interface NodeParts {
  readonly store: Store
  readonly node: string
  readonly clock: Clock
  readonly settings: Settings
  readonly worker: Worker
  readonly waiters: PendingResponses
  readonly log: Log
}

export interface HeartbeatParts extends NodeParts {
  readonly metrics: Pick<Metrics, 'reclaimed' | 'leaseLost'>
}

export function createHeartbeat({
  store,
  node,
  clock,
  settings,
  worker,
  log,
  metrics,
}: HeartbeatParts): NodeLease {
  return new NodeLease({
    store,
    node,
    clock,
    holder: worker,
    leaseMs: wholeMs(settings.jobs.lease_seconds),
    events: {
      reclaimed: (jobs) => {
        metrics.reclaimed(jobs)
        log.info({ jobs }, 'jobs of a process that ended run again')
      },
      lost: (jobs) => {
        metrics.leaseLost()
        log.warn({ jobs }, 'the lease of this node had ended: its jobs run elsewhere')
      },
      gone: (jobs) => log.debug({ jobs }, 'jobs that are not held here any more were let go'),
      trouble: (message, error) => log.warn(errorFields(error), message),
    },
  })
}

export function createElsewhere({ store, clock, worker, waiters, log }: NodeParts): RemoteResults {
  return new RemoteResults({
    store,
    clock,
    awaited: () => waiters.jobIds().filter((jobId) => !worker.isRunning(jobId)),
    onEnded: ({ cacheHit, ...view }) => waiters.settled(view, cacheHit),
    onTrouble: (error) =>
      log.warn(errorFields(error), 'looking for jobs that other nodes run failed; it is tried again'),
  })
}

export function createCancellations(
  { store, node, clock, worker, log }: NodeParts,
  elsewhere: RemoteResults,
): CancellationPoller {
  return new CancellationPoller({
    store,
    node,
    clock,
    onCancelled: (claim) => worker.lose(claim),
    onEnded: (jobIds) => elsewhere.settled(jobIds),
    onTrouble: (error) =>
      log.error(errorFields(error), 'looking for cancelled jobs failed; it is tried again'),
  })
}

/** Of a node that runs nothing: every job it accepts joins the line. */
export const NO_HANDS: Hands = {
  reserve: () => 0,
  release: () => {},
  start: () => {
    throw new Error('this node runs no jobs')
  },
  wake: () => {},
}
