/**
 * Makes admitted jobs durable. The node executes jobs for which it has free slots itself (the hand-off): no claim, no second
 * read. The others are queued.
 */
import type { Clock } from '../clock.ts'
import type { Job } from '../job/job.ts'
import type { Acceptance, Accepted, Idempotency, Store } from '../store/store.ts'
import { HeldJob } from './held-job.ts'
import type { Worker } from './worker.ts'

export interface EnqueueOptions {
  readonly idempotency: Idempotency | null
  /** Whether a caller waits for the outcome. The job may then be executed before it is durable (`held-job.ts`). */
  readonly awaited: boolean
}

/**
 * How long the write of a job that is already being executed may be delayed. A model or a cached response that is faster
 * saves one of two writes; for any other execution, five milliseconds do not matter.
 */
const EARLY_WRITE_MS = 5

export interface EnqueuerOptions {
  readonly store: Pick<Store, 'accept'>
  /** Null on a node that does not execute jobs: all its jobs are queued for others. */
  readonly worker: Worker | null
  readonly node: string
  readonly clock: Clock
  /** How far a job of this tier moves its account's next turn. */
  readonly stepOf: (tier: string) => number
  /** The route of a job that is queued (`upstreams/routes.ts`). */
  readonly routeOf: (job: Job) => string
  /** Replaces the timer of `EARLY_WRITE_MS`; null sends every job to the store at once. */
  readonly delay?: ((send: () => void) => void) | null
}

export class Enqueuer {
  readonly #options: EnqueuerOptions
  /** Jobs that are being executed; those still `unsent` are sent when the delay is over. */
  #early: HeldJob[] = []

  constructor(options: EnqueuerOptions) {
    this.#options = options
  }

  /** Resolves when the jobs are durable. Rejects with `StoreUnavailable`, and then none of them exists. */
  enqueue(jobs: readonly Job[], { idempotency, awaited }: EnqueueOptions): Promise<Accepted> {
    const { worker } = this.#options
    const slots = worker?.reserve(jobs) ?? 0
    const [first] = jobs
    if (worker && awaited && idempotency === null && slots === 1 && first) {
      return this.#executeEarly(first, worker)
    }
    return this.#acceptFirst(jobs, slots, idempotency, awaited)
  }

  async #acceptFirst(
    jobs: readonly Job[],
    slots: number,
    idempotency: Idempotency | null,
    awaited: boolean,
  ): Promise<Accepted> {
    const { store, worker } = this.#options
    let unused = slots
    try {
      const accepted = await store.accept(this.#acceptanceOf(jobs, slots, idempotency, awaited))
      if (accepted.kind !== 'accepted') return accepted
      unused = 0
      for (const job of jobs.slice(0, slots)) {
        void worker?.execute(new HeldJob({ ...job, attempt: 1, crashCount: 0 }, 'stored'))
      }
      if (slots < jobs.length) worker?.queued(jobs.slice(slots))
      return accepted
    } finally {
      if (unused > 0) worker?.free(jobs.slice(0, unused))
    }
  }

  #executeEarly(job: Job, worker: Worker): Promise<Accepted> {
    const { delay } = this.#options
    const held = new HeldJob({ ...job, attempt: 1, crashCount: 0 }, 'unsent')
    void worker.execute(held)
    if (this.#early.push(held) > 1) return held.accepted
    if (delay === null) this.#sendUnsent()
    else if (delay) delay(this.#sendUnsent)
    // Real time instead of the injected clock, because it depends on the speed of the machine.
    else setTimeout(this.#sendUnsent, EARLY_WRITE_MS)
    return held.accepted
  }

  readonly #sendUnsent = (): void => {
    const { store } = this.#options
    for (const held of this.#early) {
      if (held.state !== 'unsent') continue
      held.sent()
      store.accept(this.#acceptanceOf([held.job], 1, null, true)).then(
        () => held.stored(),
        (error) => held.rejected(error),
      )
    }
    this.#early = []
  }

  #acceptanceOf(
    jobs: readonly Job[],
    slots: number,
    idempotency: Idempotency | null,
    awaited: boolean,
  ): Acceptance {
    const { node, clock, stepOf, routeOf } = this.#options
    const newJobs = jobs.map((job, index) => ({
      job,
      handedOff: index < slots,
      step: stepOf(job.tier),
      route: index < slots ? '' : routeOf(job),
      awaited,
    }))
    return { node, jobs: newJobs, idempotency, nowMs: clock.nowMs() }
  }
}
