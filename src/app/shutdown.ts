/**
 * What a node does on SIGTERM: it stops its parts in an order that loses no job. `cli/shutdown-signals.ts` receives the
 * signal, and `service.ts` closes what is left, the store last.
 */
import type { Clock } from '../clock.ts'

/** After the last job of a stopping server, how long clients have to end their request and read the answer. */
const LAST_ANSWERS_MS = 2000

/** The connections of clients, which a stop closes. */
export interface Clients {
  /** Resolves when every request in progress has its response. */
  close(): Promise<void>
  /** Ends those that do not end by themselves. */
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
  // Last, because other nodes rescue what a node without a lease holds.
  await parts.lease.stop()
  await parts.router.close()
}
