/**
 * Shuts down a node: stops its parts in an order that does not lose a job. `cli/shutdown-signals.ts` receives the signal, and
 * `service.ts` closes the rest, the store last.
 */
import type { Clock } from '../clock.ts'

/** How long clients have, after the last job of a stopping server, to finish their request and read the response. */
const LAST_ANSWERS_MS = 2000

/** The connections of clients, which a stop closes. */
export interface Clients {
  /** Resolves when every request in progress has its response. */
  close(): Promise<void>
  /** Closes connections that do not close by themselves. */
  cutOff(): void
}

interface Stoppable {
  stop(): Promise<void>
}

export interface RunningParts {
  readonly clock: Clock
  /** How long running jobs may take to end before they are released (`jobs.drain_seconds`). */
  readonly drainMs: number
  readonly polls: readonly Stoppable[]
  readonly pendingResponses: { stop(): void }
  readonly worker: { drain(drainMs: number): Promise<void> }
  readonly dispatcher: Stoppable
  readonly lease: Stoppable
  readonly router: { close(): Promise<void> }
}

/** Pending responses get their 202, executions end or their jobs are released, and the lease ends last. */
export async function shutDown(parts: RunningParts, clients: Clients): Promise<void> {
  const polls = parts.polls.map((poll) => poll.stop())
  parts.pendingResponses.stop()
  const closed = clients.close()
  await parts.worker.drain(parts.drainMs)
  // Closing also ends the timeouts of requests, so a client that never ends its own would keep the server running forever.
  const cancel = parts.clock.after(LAST_ANSWERS_MS, () => clients.cutOff())
  await Promise.all([closed, parts.dispatcher.stop(), ...polls])
  cancel()
  // Last, because other nodes rescue the jobs of a node without a lease.
  await parts.lease.stop()
  await parts.router.close()
}
