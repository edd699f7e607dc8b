/**
 * Answers pending responses whose jobs another node ran. A notification arrives when a job is settled; a poll of the database
 * every second finds jobs whose notification was lost. If a job is deleted before its result is read, the waits that began
 * while the job existed end.
 */
import type { Clock } from '../clock.ts'
import { PollingLoop } from '../polling-loop.ts'
import type { EndedJob, Store } from '../store/store.ts'

const POLL_MS = 1000
/** Maximum jobs per read. */
const MAX_READ = 1000
/** Maximum bytes of results per read, to limit memory: the next read starts when the results of this one have been passed on. */
const MAX_READ_BYTES = 1024 * 1024

export interface RemoteResultsOptions {
  readonly store: Pick<Store, 'readEnded' | 'findMissing' | 'shared'>
  readonly clock: Clock
  /** The jobs that requests on this node wait for and that this node does not run. */
  readonly awaited: () => readonly string[]
  /** Whether a request waits for the job whose wait began when the job existed. */
  readonly awaitsExisting: (jobId: string) => boolean
  readonly onEnded: (job: EndedJob) => void
  /** Called if a job that existed when a wait began no longer exists. */
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

  /** Does nothing on a database that no other node shares. */
  start(): void {
    if (this.#options.store.shared) this.#poll.start()
  }

  stop(): Promise<void> {
    return this.#poll.stop()
  }

  /** Call this when these jobs were settled by other means than this node's worker. Never rejects. */
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
