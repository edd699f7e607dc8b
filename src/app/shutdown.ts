/** Stops the parts of a node in the right order. `service.ts` calls it, and closes the store afterwards. */
import type { Clock } from '../clock.ts'
import type { ModelRouter } from '../upstreams/router.ts'

/** After the last job of a stopping server has ended, clients have this long to read the response, in milliseconds. */
const LAST_ANSWERS_MS = 2000

/** The connections of clients. */
export interface Clients {
  /** Resolves when every request in progress has its response. */
  close(): Promise<void>
  /** Closes the connections that do not close by themselves. */
  cutOff(): void
}

interface Stoppable {
  stop(): Promise<void>
}

interface RunningParts {
  readonly clock: Clock
  /** How long running jobs may continue before they are released (`jobs.drain_seconds`). */
  readonly drainMs: number
  readonly polls: readonly Stoppable[]
  readonly pendingResponses: { stop(): void }
  readonly worker: { drain(drainMs: number): Promise<void> }
  readonly dispatcher: Stoppable
  readonly lease: Stoppable
  readonly router: Pick<ModelRouter, 'leaveRates' | 'close'>
}

/**
 * Shuts down in an order that loses no job: pending requests get their 202; executions end, or their jobs are released; the
 * lease ends last.
 */
export async function shutDown(parts: RunningParts, clients: Clients): Promise<void> {
  const polls = parts.polls.map((poll) => poll.stop())
  parts.pendingResponses.stop()
  const closed = clients.close()
  const drained = parts.worker.drain(parts.drainMs)
  // Jobs that wait for a rate are released. The drain has begun before, so that this node does not claim them again.
  parts.router.leaveRates()
  await drained
  // Node stops its timeouts when the server closes, so a client that never finishes its request would keep the server running.
  const cancel = parts.clock.after(LAST_ANSWERS_MS, () => clients.cutOff())
  await Promise.all([closed, parts.dispatcher.stop(), ...polls])
  cancel()
  // Other nodes rescue the jobs of a node without a lease, so the lease ends last.
  await parts.lease.stop()
  await parts.router.close()
}
