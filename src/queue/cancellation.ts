/**
 * Stops the executions on this node of jobs that any process on the database has cancelled, and answers the requests on this
 * node that wait for those jobs. The outcomes of these jobs are already stored.
 */
import type { Clock } from '../clock.ts'
import { PollingLoop } from '../polling-loop.ts'
import { type Claim, MAX_CANCELLED, type NodeStore } from '../store/node-store.ts'
import { StoreUnavailable } from '../store/store.ts'
import type { PendingResponses } from './pending-responses.ts'

/** An execution must stop within a second of its cancellation, so the node polls twice per second. */
const POLL_MS = 500
/**
 * A node without running jobs or pending responses polls less often, and at the same instants as other loops, because each
 * instant wakes the process and its database.
 */
const IDLE_POLL_MS = 1000

export interface CancellationOptions {
  readonly store: Pick<NodeStore, 'takeCancelled'>
  readonly node: string
  readonly clock: Clock
  /** `lose` stops the execution of the job if this node holds the job under this attempt. */
  readonly worker: { readonly running: number; lose(claim: Claim): void }
  readonly pendingResponses: Pick<PendingResponses, 'has' | 'count'>
  /** `settled` answers the requests on this node that wait for these finished jobs. */
  readonly remoteResults: { settled(jobIds: readonly string[]): Promise<void> }
  readonly onError: (error: unknown) => void
}

export class Cancellation {
  readonly #options: CancellationOptions
  readonly #poll: PollingLoop

  constructor(options: CancellationOptions) {
    const { clock, onError } = options
    this.#options = options
    this.#poll = new PollingLoop({ clock, pauseMs: POLL_MS, task: () => this.#pollIfNeeded(), onError })
  }

  start(): void {
    this.#poll.start()
  }

  stop(): Promise<void> {
    return this.#poll.stop()
  }

  async #pollIfNeeded(): Promise<void> {
    const { clock, worker, pendingResponses } = this.#options
    const isBusy = worker.running > 0 || pendingResponses.count > 0
    const isShared = Math.round(clock.steadyMs() / POLL_MS) % (IDLE_POLL_MS / POLL_MS) === 0
    if (isBusy || isShared) await this.apply()
  }

  /**
   * Signals the executions of all jobs on this node that were cancelled before the call to stop. If the database does not
   * respond, the next poll does this. Never rejects.
   */
  async apply(): Promise<void> {
    const { store, node, onError } = this.#options
    try {
      let cancelled: readonly Claim[]
      do {
        cancelled = await store.takeCancelled(node)
        await this.#end(cancelled)
      } while (cancelled.length >= MAX_CANCELLED)
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) onError(error)
    }
  }

  /**
   * Call this after this node cancelled the job. Signals its execution on this node to stop, and answers the requests on this
   * node that wait for it, whichever node ran it. Never rejects.
   */
  async cancelled(jobId: string): Promise<void> {
    const { pendingResponses, remoteResults } = this.#options
    await this.apply()
    if (pendingResponses.has(jobId)) await remoteResults.settled([jobId])
  }

  async #end(cancelled: readonly Claim[]): Promise<void> {
    const { worker, pendingResponses, remoteResults } = this.#options
    for (const claim of cancelled) worker.lose(claim)
    await remoteResults.settled(
      cancelled.map(({ jobId }) => jobId).filter((jobId) => pendingResponses.has(jobId)),
    )
  }
}
