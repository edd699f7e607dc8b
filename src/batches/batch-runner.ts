/** Runs the batches that this node owns, one step of each in turn. Claims new batches, and those of nodes that have crashed. */
import type { Clock } from '../clock.ts'
import { PollingLoop } from '../polling-loop.ts'
import { BatchRun, type BatchRunOptions } from './batch-run.ts'
import type { OwnedBatches } from './progress.ts'

export interface BatchRunnerOptions extends Omit<BatchRunOptions, 'clock'> {
  readonly clock: Clock
  /** How often a node without batches looks for batches. Creating a batch through this node wakes the runner. */
  readonly idleClaimMs: number
  readonly onError: (error: unknown) => void
}

/** The batches of a node share this many lines with unfinished jobs equally, but each may have at least `LEAST_OPEN`. */
export const OPEN_LINES = 1000
const LEAST_OPEN = 10
/** A node claims batches up to this number, and beyond it only the oldest batch of each account. */
const MAX_BATCHES = 100
/** How often a node with batches looks for other batches, and for changes to its own. */
const CLAIM_MS = 1000
/** When an account's batches have taken this long in a round, its other batches wait for the next round. */
const ACCOUNT_MS = 200
/**
 * The pause after a round: the first if a step was full or a batch got no turn, the second if only smaller steps were stored,
 * and the third otherwise.
 */
const FULL_PAUSE_MS = 0
const BUSY_PAUSE_MS = 20
const PAUSE_MS = 200

export class BatchRunner {
  readonly #options: BatchRunnerOptions
  readonly #runs = new Map<string, BatchRun>()
  readonly #loop: PollingLoop
  #pauseOfRoundMs = PAUSE_MS
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

  async stop(): Promise<void> {
    await this.#loop.stop()
    await this.#settled()
  }

  async #settled(): Promise<void> {
    await Promise.all([...this.#runs.values()].map((run) => run.settled()))
  }

  async #round(): Promise<void> {
    const { clock, idleClaimMs } = this.#options
    this.#pauseOfRoundMs = PAUSE_MS
    if (clock.steadyMs() >= this.#claimAtMs) {
      // The time is set before the search, so that a batch created during the search causes another search.
      this.#claimAtMs = clock.steadyMs() + (this.#runs.size > 0 ? CLAIM_MS : idleClaimMs)
      await this.#claim()
    }
    const maxOpen = Math.max(LEAST_OPEN, Math.floor(OPEN_LINES / Math.max(1, this.#runs.size)))
    await this.#stepEach(maxOpen)
  }

  /** Runs a step of each batch, unless the batches of its account have already taken too long in this round. */
  async #stepEach(maxOpen: number): Promise<void> {
    const { clock } = this.#options
    const usedMs = new Map<string, number>()
    for (const [id, run] of [...this.#runs]) {
      const { account } = run
      const used = usedMs.get(account) ?? 0
      if (used >= ACCOUNT_MS) {
        this.#pauseOfRoundMs = FULL_PAUSE_MS
        continue
      }
      const startedMs = clock.steadyMs()
      // The batch moves to the end, so that batches without a turn in this round come first in the next one.
      this.#runs.delete(id)
      this.#runs.set(id, run)
      await this.#step(id, run, maxOpen)
      usedMs.set(account, used + clock.steadyMs() - startedMs)
    }
  }

  #pauseMs(): number {
    if (this.#runs.size > 0) return this.#pauseOfRoundMs
    return Math.max(BUSY_PAUSE_MS, this.#claimAtMs - this.#options.clock.steadyMs())
  }

  async #claim(): Promise<void> {
    const { store, node } = this.#options
    await this.#settled()
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

  /** Drops a run that fails. The next claim continues from the stored state. */
  async #step(id: string, run: BatchRun, maxOpen: number): Promise<void> {
    try {
      const result = await run.step(maxOpen)
      if (result === 'busy') this.#pauseOfRoundMs = Math.min(this.#pauseOfRoundMs, BUSY_PAUSE_MS)
      if (result === 'full') this.#pauseOfRoundMs = FULL_PAUSE_MS
      if (result === 'ended' || result === 'lost') this.#runs.delete(id)
      if (result === 'lost') this.#claimAtMs = Number.NEGATIVE_INFINITY
    } catch (error) {
      await run.settled()
      this.#runs.delete(id)
      this.#claimSoon()
      this.#options.onError(error)
    }
  }
}
