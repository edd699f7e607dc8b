/** Runs the batches that this node owns, one step of each at a time. It claims those that are new or whose node has crashed. */
import type { Clock } from '../clock.ts'
import { PollingLoop } from '../polling-loop.ts'
import { BatchRun, type BatchRunOptions } from './batch-run.ts'
import type { OwnedBatches } from './progress.ts'

export interface BatchRunnerOptions extends Omit<BatchRunOptions, 'clock'> {
  readonly clock: Clock
  /** The pause between searches while there are no batches. They only find those of crashed nodes: new ones wake the runner. */
  readonly idleClaimMs: number
  readonly onError: (error: unknown) => void
}

/** Maximum lines with open jobs, over all batches of a node, and the least that one batch gets. */
export const OPEN_LINES = 1000
const LEAST_OPEN = 10
const MAX_BATCHES = 100
/** The pause between searches for batches, which also show what others have changed. */
const CLAIM_MS = 1000
const BUSY_PAUSE_MS = 20
const PAUSE_MS = 200

export class BatchRunner {
  readonly #options: BatchRunnerOptions
  readonly #runs = new Map<string, BatchRun>()
  readonly #loop: PollingLoop
  #isBusy = false
  #claimAtMs = Number.NEGATIVE_INFINITY

  constructor(options: BatchRunnerOptions) {
    this.#options = options
    this.#loop = new PollingLoop({
      clock: options.clock,
      pauseMs: () => this.#pauseMs(),
      task: () => this.#round(),
      onError: options.onError,
    })
  }

  get owned(): OwnedBatches {
    const runs = [...this.#runs.values()]
    return {
      statuses: runs.map(({ status }) => status),
      lines: runs.reduce((sum, { openLines }) => sum + openLines, 0),
    }
  }

  start(): void {
    this.#loop.start()
  }

  /** Call this when a batch was created or cancelled through this node. */
  wake(): void {
    this.#claimAtMs = Number.NEGATIVE_INFINITY
    this.#loop.wake()
  }

  stop(): Promise<void> {
    return this.#loop.stop()
  }

  async #round(): Promise<void> {
    const { clock, idleClaimMs } = this.#options
    this.#isBusy = false
    if (clock.steadyMs() >= this.#claimAtMs) {
      // Set before the search, because a batch that is created during it must cause another one.
      this.#claimAtMs = clock.steadyMs() + (this.#runs.size > 0 ? CLAIM_MS : idleClaimMs)
      await this.#claim()
    }
    const maxOpen = Math.max(LEAST_OPEN, Math.floor(OPEN_LINES / Math.max(1, this.#runs.size)))
    for (const [id, run] of this.#runs) await this.#step(id, run, maxOpen)
  }

  #pauseMs(): number {
    if (this.#isBusy) return BUSY_PAUSE_MS
    if (this.#runs.size > 0) return PAUSE_MS
    return Math.max(BUSY_PAUSE_MS, this.#claimAtMs - this.#options.clock.steadyMs())
  }

  async #claim(): Promise<void> {
    const { store, node } = this.#options
    const batches = await store.claimBatches(node, Math.max(0, MAX_BATCHES - this.#runs.size))
    const owned = new Set(batches.map(({ id }) => id))
    for (const id of this.#runs.keys()) if (!owned.has(id)) this.#runs.delete(id)
    for (const batch of batches) {
      if (this.#runs.get(batch.id)?.version === batch.version) continue
      this.#runs.set(batch.id, await BatchRun.of(batch, this.#options))
    }
    if (batches.length > 0) this.#claimSoon()
  }

  #claimSoon(): void {
    this.#claimAtMs = Math.min(this.#claimAtMs, this.#options.clock.steadyMs() + CLAIM_MS)
  }

  /** Discards a run that fails; the next claim continues from the stored state. */
  async #step(id: string, run: BatchRun, maxOpen: number): Promise<void> {
    try {
      const result = await run.step(maxOpen)
      if (result === 'busy') this.#isBusy = true
      if (result === 'ended' || result === 'lost') this.#runs.delete(id)
      if (result === 'lost') this.#claimAtMs = Number.NEGATIVE_INFINITY
    } catch (error) {
      this.#runs.delete(id)
      this.#claimSoon()
      this.#options.onError(error)
    }
  }
}
