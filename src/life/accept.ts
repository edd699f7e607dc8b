/**
 * From a checked request to durable jobs. The node runs what it has room for itself (the hand-off): no claim, no
 * second read. What it has no room for waits in the line.
 */
import type { Clock } from '../clock.ts'
import type { ClaimedJob, Job } from '../job/job.ts'
import type { Accepted, Idempotency, Store } from '../store/store.ts'

/** The part of the worker that acceptance needs. */
export interface Hands {
  /** Takes up to `count` free places for jobs about to be accepted; returns how many it took. */
  reserve(count: number): number
  /** Returns reserved places unused. */
  release(count: number): void
  /** Runs a job in a reserved place. `stored` is awaited before anything is written about the job. */
  start(job: ClaimedJob, stored: Promise<unknown>): void
  /** Jobs have joined the line. */
  wake(): void
}

export interface AcceptOptions {
  readonly idempotency: Idempotency | null
  /**
   * Whether the model may be called while the acceptance is still being committed: right for a caller who waits, since
   * nothing has been promised yet, and nothing is told of a run whose job was not stored.
   */
  readonly early: boolean
}

export class Acceptor {
  readonly #store: Store
  readonly #hands: Hands
  readonly #node: string
  readonly #clock: Clock
  readonly #stepOf: (tier: string) => number

  /** @param stepOf how far a job of this tier moves its account's next turn */
  constructor(store: Store, hands: Hands, node: string, clock: Clock, stepOf: (tier: string) => number) {
    this.#store = store
    this.#hands = hands
    this.#node = node
    this.#clock = clock
    this.#stepOf = stepOf
  }

  /** Resolves when the jobs are durable. Rejects with `StoreUnavailable`, and then none of them exists. */
  async accept(jobs: readonly Job[], { idempotency, early }: AcceptOptions): Promise<Accepted> {
    const places = this.#hands.reserve(jobs.length)
    const stored = this.#store.accept({
      node: this.#node,
      jobs: jobs.map((job, index) => ({ job, handedOff: index < places, step: this.#stepOf(job.tier) })),
      idempotency,
      nowMs: this.#clock.nowMs(),
    })
    const runEarly = early && idempotency === null
    if (runEarly) this.#startFirst(jobs, places, stored)
    try {
      const accepted = await stored
      if (!runEarly) {
        if (accepted.kind === 'accepted') this.#startFirst(jobs, places, stored)
        else this.#hands.release(places)
      }
      if (accepted.kind === 'accepted' && places < jobs.length) this.#hands.wake()
      return accepted
    } catch (error) {
      if (!runEarly) this.#hands.release(places)
      throw error
    }
  }

  #startFirst(jobs: readonly Job[], count: number, stored: Promise<unknown>): void {
    for (const job of jobs.slice(0, count)) this.#hands.start({ ...job, attempt: 1, deaths: 0 }, stored)
  }
}
