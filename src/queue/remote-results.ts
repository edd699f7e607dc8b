/**
 * Callers who wait here for jobs that another node runs: told by a notice as soon as the job is settled, and by a look at
 * the database every second, since notices may be lost.
 */
import type { Clock } from '../clock.ts'
import type { EndedJob, Store } from '../store/store.ts'

const LOOK_MS = 1000
/** Jobs asked for in one question. */
const AT_ONCE = 1000

export interface RemoteResultsOptions {
  readonly store: Pick<Store, 'readEnded' | 'shared'>
  readonly clock: Clock
  /** The jobs that callers wait for here and that do not run here. */
  readonly awaited: () => readonly string[]
  readonly onEnded: (job: EndedJob) => void
  readonly onTrouble: (error: unknown) => void
}

export class RemoteResults {
  readonly #options: RemoteResultsOptions
  #cancel: () => void = () => {}
  #stopped = false

  constructor(options: RemoteResultsOptions) {
    this.#options = options
  }

  begin(): void {
    if (this.#options.store.shared) this.#later()
  }

  stop(): void {
    this.#stopped = true
    this.#cancel()
  }

  /** These jobs have been settled by another node. Never rejects. */
  async settled(jobIds: readonly string[]): Promise<void> {
    const { store, onEnded, onTrouble } = this.#options
    try {
      for (let from = 0; from < jobIds.length; from += AT_ONCE) {
        const ended = await store.readEnded(jobIds.slice(from, from + AT_ONCE))
        for (const job of ended) onEnded(job)
      }
    } catch (error) {
      onTrouble(error)
    }
  }

  #later(): void {
    this.#cancel = this.#options.clock.after(LOOK_MS, () => void this.#look())
  }

  async #look(): Promise<void> {
    await this.settled(this.#options.awaited())
    if (!this.#stopped) this.#later()
  }
}
