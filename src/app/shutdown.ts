/** Shuts down a node: the order in which its parts stop. `service.ts` closes the listener and the store around it. */
import type { Clock } from '../clock.ts'
import type { ModelRouter } from '../upstreams/router.ts'

/** After the last job of a stopping server, clients have this long to finish their request and read the response. */
const LAST_ANSWERS_MS = 2000

/** The connections of clients, which shutdown closes. */
export interface Clients {
  /** Resolves when every request in progress has its response. */
  close(): Promise<void>
  /** Closes connections that do not close by themselves. */
  cutOff(): void
}

interface Stoppable {
  stop(): Promise<void>
}

interface RunningParts {
  readonly clock: Clock
  /** Running jobs have this long to end before they are released (`jobs.drain_seconds`). */
  readonly drainMs: number
  readonly polls: readonly Stoppable[]
  readonly pendingResponses: { stop(): void }
  readonly worker: { drain(drainMs: number): Promise<void> }
  readonly dispatcher: Stoppable
  readonly lease: Stoppable
  readonly router: Pick<ModelRouter, 'leaveRates' | 'close'>
}

/**
 * Shuts down in an order that loses no job: pending requests get their 202, executions end or their jobs are released, and the
 * lease ends last.
 */
export async function shutDown(parts: RunningParts, clients: Clients): Promise<void> {
  const polls = parts.polls.map((poll) => poll.stop())
  parts.pendingResponses.stop()
  const closed = clients.close()
  const drained = parts.worker.drain(parts.drainMs)
  // After the drain has begun, so that this node does not claim them again.
  parts.router.leaveRates()
  await drained
  // Closing also ends the timeouts of requests, so a client that never ends its own would keep the server running forever.
  const cancel = parts.clock.after(LAST_ANSWERS_MS, () => clients.cutOff())
  await Promise.all([closed, parts.dispatcher.stop(), ...polls])
  cancel()
  // The lease ends last, because other nodes rescue the jobs of a node without a lease.
  await parts.lease.stop()
  await parts.router.close()
}
