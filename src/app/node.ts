/** Creates the parts that connect this node to other nodes on the same database: lease, remote results and cancellation. */
import { type Clock, wholeMs } from '../clock.ts'
import type { Settings } from '../config/settings.ts'
import { Cancellation } from '../queue/cancellation.ts'
import { type Heartbeat, NodeLease } from '../queue/node-lease.ts'
import type { PendingResponses } from '../queue/pending-responses.ts'
import { RemoteResults } from '../queue/pending-responses.ts'
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
  readonly pendingResponses: PendingResponses
  readonly log: Log
  readonly metrics: Metrics
}

export type StartHeartbeat = (onExpired: () => void) => Promise<Heartbeat>

export interface HeartbeatParts extends Pick<NodeParts, 'settings' | 'node' | 'clock' | 'log'> {
  /** Called when the heartbeat thread has exited. The process must then exit, too. */
  readonly onFatal: (error: Error) => void
}

/** Returns the function that starts the heartbeat thread. */
export function heartbeatStarter({ settings, node, clock, log, onFatal }: HeartbeatParts): StartHeartbeat {
  return async (onExpired) => {
    // Loaded only with Postgres, because SQLite has no leases.
    const { startHeartbeat } = await import('./heartbeat.ts')
    const onError = (error: Error) => log.warn(errorFields(error), 'could not renew the lease; retrying')
    return startHeartbeat({ settings, node, clock, onExpired, onError, onFatal })
  }
}

export function createNodeLease({
  settings,
  log,
  metrics,
  ...parts
}: NodeParts & { readonly startHeartbeat: StartHeartbeat }): NodeLease {
  return new NodeLease({
    ...parts,
    leaseMs: wholeMs(settings.jobs.lease_seconds),
    events: {
      rescued: (jobs) => {
        metrics.rescued(jobs)
        log.info({ jobs }, 'rescued the jobs of a dead process; they are queued again')
      },
      reverted: (crashes) => {
        metrics.crashesReverted(crashes)
        log.info({ crashes }, 'reverted crashes of jobs: the node that ran them was only paused and is back')
      },
      lost: (jobs) => {
        metrics.leaseLost()
        log.warn({ jobs }, 'the lease of this node expired; other nodes run its jobs')
      },
      gone: (jobs) => log.debug({ jobs }, 'stopped jobs that this node no longer holds'),
      error: (message, error) => log.warn(errorFields(error), message),
    },
  })
}

export function createRemoteResults({
  store,
  clock,
  worker,
  pendingResponses,
  log,
}: NodeParts): RemoteResults {
  return new RemoteResults({
    store,
    clock,
    awaited: () => pendingResponses.jobIds().filter((jobId) => !worker.isRunning(jobId)),
    awaitsExisting: (jobId) => pendingResponses.awaitsExisting(jobId),
    onVanished: (jobId) => pendingResponses.vanished(jobId),
    onEnded: ({ cacheHit, ...record }) =>
      pendingResponses.end(record.id, { kind: 'settled', record, cacheHit }),
    onError: (error) => log.warn(errorFields(error), 'could not read the results of other nodes; retrying'),
  })
}

export function createCancellation(parts: NodeParts, remoteResults: RemoteResults): Cancellation {
  const { store, node, clock, worker, pendingResponses, log } = parts
  return new Cancellation({
    store,
    node,
    clock,
    worker,
    pendingResponses,
    remoteResults,
    onError: (error) => log.error(errorFields(error), 'could not read cancelled jobs; retrying'),
  })
}
