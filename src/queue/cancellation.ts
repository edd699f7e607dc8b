/**
 * Hears of jobs that an operator cancelled, wherever: the run of one that is in hand here ends, its call to the model server
 * with it, and a caller who waits here for one is answered. The outcome is durable already.
 */
import type { Clock } from '../clock.ts'
import type { Claim, NodeStore } from '../store/node-store.ts'
import { StoreUnavailable } from '../store/store.ts'

/** Twice as often as the second within which a run is to end. */
const LOOK_MS = 500

export interface CancellationPollerOptions {
  readonly store: Pick<NodeStore, 'takeCancelled'>
  readonly node: string
  readonly clock: Clock
  /** Ends the run of a job, if it is in hand under that attempt. */
  readonly onCancelled: (claim: Claim) => void
  /** Answers whoever waits here for these jobs. */
  readonly onEnded: (jobIds: readonly string[]) => Promise<void>
  readonly onTrouble: (error: unknown) => void
}

export class CancellationPoller {
  readonly #options: CancellationPollerOptions
  #cancel: () => void = () => {}
  #stopped = false

  constructor(options: CancellationPollerOptions) {
    this.#options = options
  }

  begin(): void {
    this.#cancel = this.#options.clock.after(LOOK_MS, () => void this.#lookAndGoOn())
  }

  stop(): void {
    this.#stopped = true
    this.#cancel()
  }

  async #lookAndGoOn(): Promise<void> {
    await this.look()
    if (!this.#stopped) this.begin()
  }

  /** Resolves when all that were cancelled until now are told. Never rejects. */
  async look(): Promise<void> {
    const { store, node, onCancelled, onEnded, onTrouble } = this.#options
    try {
      for (let some = await store.takeCancelled(node); some.length > 0; ) {
        for (const claim of some) onCancelled(claim)
        await onEnded(some.map(({ jobId }) => jobId))
        some = await store.takeCancelled(node)
      }
    } catch (error) {
      // What the database could not say now it says at the next look.
      if (!(error instanceof StoreUnavailable)) onTrouble(error)
    }
  }
}
