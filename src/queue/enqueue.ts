/**
 * Makes admitted jobs durable. The node executes jobs for which it has free slots itself (the hand-off): no claim, no second
 * read. The others are queued.
 */
import type { Clock } from '../clock.ts'
import type { Job } from '../job/job.ts'
import type { Acceptance, Accepted, Idempotency, Store } from '../store/store.ts'
import { HeldJob } from './held-job.ts'
import type { Worker } from './worker.ts'
import type { WriteDelay } from './write-delay.ts'

export interface EnqueueOptions {
  readonly idempotency: Idempotency | null
  /** Whether a caller waits for the outcome. The job may then be executed before it is durable (`held-job.ts`). */
  readonly awaited: boolean
}

/**
 * How long the write of a job that is already being executed is delayed, and at most twice that. A model or a cached response
 * that is faster saves one of two writes; the others share a transaction. Nobody notices the delay, because the caller has no
 * identifier yet.
 */
const EARLY_WRITE_MS = 25
/** After so many early writes, those of jobs that have ended are forgotten, so that none keeps a job's text in memory for long. */
const LEAST_EARLY = 64

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
  /** Delays early writes; null sends every job to the store at once. */
  readonly delay: WriteDelay | null
}

export class Enqueuer {
  readonly #options: EnqueuerOptions
  /** Jobs that are being executed. Those that have been here for a whole delay, and are still `unsent`, are sent when it ends. */
  #early: HeldJob[] = []
  #isDelayed = false
  /** How many of them were here when the delay began. */
  #due = 0
  #forgetAt = LEAST_EARLY

  constructor(options: EnqueuerOptions) {
    this.#options = options
  }

  /** Resolves when the jobs are durable. Rejects with `StoreUnavailable` or `UnknownAccount`, and then none of them exists. */
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
    const call = slots > 0 ? (worker?.assigningCalls.begin() ?? 0) : 0
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
      worker?.assigningCalls.end(call)
      if (unused > 0) worker?.free(jobs.slice(0, unused))
    }
  }

  #executeEarly(job: Job, worker: Worker): Promise<Accepted> {
    const held = new HeldJob({ ...job, attempt: 1, crashCount: 0 }, 'unsent')
    void worker.execute(held)
    const { delay } = this.#options
    if (delay === null) this.#send(held)
    else this.#sendLater(held, delay)
    return held.accepted
  }

  #sendLater(held: HeldJob, delay: WriteDelay): void {
    if (this.#early.push(held) >= this.#forgetAt) this.#forgetSent()
    if (!this.#isDelayed) this.#delayEarly(delay)
  }

  #delayEarly(delay: WriteDelay): void {
    this.#isDelayed = this.#early.length > 0
    this.#due = this.#early.length
    if (!this.#isDelayed) return
    delay(EARLY_WRITE_MS, () => {
      for (const held of this.#early.splice(0, this.#due)) this.#send(held)
      this.#due = 0
      this.#forgetSent()
      this.#delayEarly(delay)
    })
  }

  #forgetSent(): void {
    const isUnsent = ({ state }: HeldJob) => state === 'unsent'
    this.#due = this.#early.slice(0, this.#due).filter(isUnsent).length
    this.#early = this.#early.filter(isUnsent)
    this.#forgetAt = Math.max(LEAST_EARLY, 2 * this.#early.length)
  }

  #send(held: HeldJob): void {
    if (held.state !== 'unsent') return
    held.sent()
    this.#options.store.accept(this.#acceptanceOf([held.job], 1, null, true)).then(
      () => held.stored(),
      (error) => held.rejected(error),
    )
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
