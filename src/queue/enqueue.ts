/**
 * From a checked request to durable jobs. The node runs what it has room for itself (the hand-off): no claim, no
 * second read. What it has no room for waits in the line.
 */
import type { Clock } from '../clock.ts'
import type { ClaimedJob, Job } from '../job/job.ts'
import {
  type Acceptance,
  type Accepted,
  type Idempotency,
  type Settlement,
  type Store,
  WriteRejected,
} from '../store/store.ts'

/** How a job that runs here comes to be stored. */
export interface Storing {
  /** Resolves when the job is durable. Rejects when it could not be stored: then it never existed. */
  readonly stored: Promise<unknown>
  /**
   * Has the outcome stored together with the job, in one write, if the job itself has not been sent to the store yet.
   * Returns whether it will be; `stored` then speaks for both.
   * @param instead what is stored where the database rejects the settlement for good
   */
  endWith(settlement: Settlement, instead: (error: WriteRejected) => Settlement): boolean
}

/** The part of the worker that acceptance needs. */
export interface Hands {
  /** Takes up to `count` free places for jobs about to be accepted; returns how many it took. */
  reserve(count: number): number
  /** Returns reserved places unused. */
  release(count: number): void
  /** Runs a job in a reserved place. */
  start(job: ClaimedJob, storing: Storing): void
  /** Jobs have joined the line. */
  wake(): void
}

export interface EnqueueOptions {
  readonly idempotency: Idempotency | null
  /**
   * Whether a caller waits for the outcome. The model may then be called before the job is durable: nothing has been
   * promised yet, and nothing is told of a run whose job was not stored.
   */
  readonly awaited: boolean
}

/**
 * For how long a job that already runs may wait to be sent to the store. A model or a kept answer that is faster than
 * that makes it one write instead of two; for any other, five milliseconds in a run are nothing.
 */
export const LINGER_MS = 5

export interface EnqueuerOptions {
  readonly store: Store
  readonly hands: Hands
  readonly node: string
  readonly clock: Clock
  /** How far a job of this tier moves its account's next turn. */
  readonly stepOf: (tier: string) => number
  /** Calls back after `LINGER_MS`; null where every job is to be sent at once. */
  readonly linger: ((act: () => void) => void) | null
}

export class Enqueuer {
  readonly #parts: EnqueuerOptions
  /** Jobs that run but have not been sent to the store. */
  #lingering: Lingering[] = []

  constructor(parts: EnqueuerOptions) {
    this.#parts = parts
  }

  /** Resolves when the jobs are durable. Rejects with `StoreUnavailable`, and then none of them exists. */
  accept(jobs: readonly Job[], options: EnqueueOptions): Promise<Accepted> {
    const places = this.#parts.hands.reserve(jobs.length)
    const [first] = jobs
    const { idempotency, awaited } = options
    if (awaited && idempotency === null && places === 1 && first) return this.#acceptEarly(first)
    return this.#acceptThenStart(jobs, places, options)
  }

  async #acceptThenStart(
    jobs: readonly Job[],
    places: number,
    { idempotency, awaited }: EnqueueOptions,
  ): Promise<Accepted> {
    const { store, hands } = this.#parts
    try {
      const accepted = await store.accept(this.#acceptanceOf(jobs, places, idempotency, awaited))
      if (accepted.kind === 'accepted') {
        for (const job of jobs.slice(0, places)) hands.start(firstClaimOf(job), STORED)
        if (places < jobs.length) hands.wake()
      } else hands.release(places)
      return accepted
    } catch (error) {
      hands.release(places)
      throw error
    }
  }

  #acceptEarly(job: Job): Promise<Accepted> {
    const { store, hands, linger } = this.#parts
    const lingering = new Lingering(store, job, () => this.#acceptanceOf([job], 1, null, true))
    hands.start(firstClaimOf(job), lingering)
    if (linger === null) lingering.send()
    else if (this.#lingering.push(lingering) === 1) linger(() => this.#sendLingering())
    return lingering.stored.then(() => ACCEPTED)
  }

  #sendLingering(): void {
    for (const lingering of this.#lingering) lingering.send()
    this.#lingering = []
  }

  #acceptanceOf(
    jobs: readonly Job[],
    places: number,
    idempotency: Idempotency | null,
    awaited: boolean,
  ): Acceptance {
    const { node, clock, stepOf } = this.#parts
    const newJobs = jobs.map((job, index) => ({
      job,
      handedOff: index < places,
      step: stepOf(job.tier),
      awaited,
    }))
    return { node, jobs: newJobs, idempotency, nowMs: clock.nowMs() }
  }
}

const ACCEPTED: Accepted = { kind: 'accepted' }

function firstClaimOf(job: Job): ClaimedJob {
  return { ...job, attempt: 1, crashCount: 0 }
}

/** Of a job that was durable before it began to run. */
export const STORED: Storing = { stored: Promise.resolve(), endWith: () => false }

/** A job that began to run before it was sent to the store. It is sent once: alone, or with its outcome. */
class Lingering implements Storing {
  readonly #store: Store
  readonly #job: Job
  readonly #acceptance: () => Acceptance
  readonly #stored = Promise.withResolvers<unknown>()
  #sent = false

  constructor(store: Store, job: Job, acceptance: () => Acceptance) {
    this.#store = store
    this.#job = job
    this.#acceptance = acceptance
  }

  get stored(): Promise<unknown> {
    return this.#stored.promise
  }

  send(): void {
    if (this.#sent) return
    this.#sent = true
    this.#storedBy(this.#store.accept(this.#acceptance()))
  }

  endWith(settlement: Settlement, instead: (error: WriteRejected) => Settlement): boolean {
    if (this.#sent) return false
    this.#sent = true
    this.#store.acceptEnded(this.#job, settlement).then(this.#stored.resolve, (error) => {
      if (error instanceof WriteRejected) this.#storedBy(this.#store.acceptEnded(this.#job, instead(error)))
      else this.#stored.reject(error)
    })
    return true
  }

  #storedBy(write: Promise<unknown>): void {
    // Resolving one promise with another would take three turns of the microtask queue instead of one.
    write.then(this.#stored.resolve, this.#stored.reject)
  }
}
