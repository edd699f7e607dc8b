/**
 * Ends pending responses whose jobs other nodes ran. A notification arrives when a job is settled. Every second, a query finds
 * the jobs whose notification was lost. If a job was deleted before its result was read, the waits that began while the job
 * existed end.
 */
import type { Clock } from '../clock.ts'
import { PollingLoop } from '../polling-loop.ts'
import type { EndedJob, Store } from '../store/store.ts'

const POLL_MS = 1000
const MAX_READ = 1000
/**
 * One read returns at most this many bytes of results, but at least one result, to limit memory. The next read starts when
 * these results have been passed on.
 */
const MAX_READ_BYTES = 1024 * 1024

export interface RemoteResultsOptions {
  readonly store: Pick<Store, 'readEnded' | 'findMissing' | 'shared'>
  readonly clock: Clock
  /** Returns the jobs that requests on this node wait for and that this node does not run. */
  readonly awaited: () => readonly string[]
  readonly awaitsExisting: (jobId: string) => boolean
  readonly onEnded: (job: EndedJob) => void
  /** The loop calls this if a job that existed when a wait began no longer exists. */
  readonly onVanished: (jobId: string) => void
  readonly onError: (error: unknown) => void
}

export class RemoteResults {
  readonly #options: RemoteResultsOptions
  readonly #poll: PollingLoop

  constructor(options: RemoteResultsOptions) {
    const { clock, awaited, onError } = options
    this.#options = options
    this.#poll = new PollingLoop({ clock, pauseMs: POLL_MS, task: () => this.settled(awaited()), onError })
  }

  /** Does nothing if no other node can share the database. */
  start(): void {
    if (this.#options.store.shared) this.#poll.start()
  }

  stop(): Promise<void> {
    return this.#poll.stop()
  }

  /**
   * Call this when something other than this node's worker may have settled these jobs. Ends the waits for those that have
   * finished or no longer exist. Never rejects.
   */
  async settled(jobIds: readonly string[]): Promise<void> {
    const { store, awaitsExisting, onEnded, onVanished, onError } = this.#options
    try {
      for (let from = 0; from < jobIds.length; from += MAX_READ) {
        const some = new Set(jobIds.slice(from, from + MAX_READ))
        while (some.size > 0) {
          const ended = await store.readEnded([...some], MAX_READ_BYTES)
          if (ended.length === 0) break
          for (const job of ended) {
            some.delete(job.id)
            onEnded(job)
          }
        }
        const existed = [...some].filter(awaitsExisting)
        if (existed.length === 0) continue
        for (const jobId of await store.findMissing(existed)) onVanished(jobId)
      }
    } catch (error) {
      onError(error)
    }
  }
}
