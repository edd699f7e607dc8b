/**
 * Finds jobs that were cancelled through any process on the database. Stops their execution on this node, including the call to
 * the model server, and answers the requests on this node that wait for them. Their outcome is already stored.
 */
import type { Clock } from '../clock.ts'
import { PollingLoop } from '../polling-loop.ts'
import { type Claim, MAX_CANCELLED, type NodeStore } from '../store/node-store.ts'
import { StoreUnavailable } from '../store/store.ts'
import type { PendingResponses } from './pending-responses.ts'

/** Polls twice per second, because an execution must stop within a second of its cancellation. */
const POLL_MS = 500
/**
 * How often a node polls that runs no job and has no pending responses. It polls in the same instants as other loops, because
 * each instant wakes the process and its database.
 */
const IDLE_POLL_MS = 1000

export interface CancellationOptions {
  readonly store: Pick<NodeStore, 'takeCancelled'>
  readonly node: string
  readonly clock: Clock
  /** Stops the execution of the job if this node holds it under this attempt. */
  readonly worker: { readonly running: number; lose(claim: Claim): void }
  readonly pendingResponses: Pick<PendingResponses, 'has' | 'count'>
  /** Answers the requests on this node that wait for these finished jobs. */
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
   * Stops the executions of all jobs on this node that were cancelled before the call. Also resolves if the database does not
   * respond; the next poll then stops them. Never rejects.
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
      // If the database is unavailable, the next poll finds the jobs.
      if (!(error instanceof StoreUnavailable)) onError(error)
    }
  }

  /**
   * Call this after this node cancelled the job. Resolves when the job's execution has stopped here and the requests that wait
   * for it here are answered, whichever node held the job. Never rejects.
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
