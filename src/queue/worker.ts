/**
 * Drives jobs on this node: claims them when there is room, runs them, settles them, and gives back what a stopping
 * node cannot finish. At most `concurrency` jobs are in hand at once.
 */
import type { Clock } from '../clock.ts'
import type { ClaimedJob } from '../job/job.ts'
import { Stop, type StopSignal } from '../job/stop.ts'
import type { Claim } from '../store/node-store.ts'
import { type Settled, type Settlement, type Store, StoreUnavailable, WriteRejected } from '../store/store.ts'
import { type Hands, STORED, type Storing } from './enqueue.ts'
import { type ExecutionResult, internalFailure, notStorable } from './execute.ts'
import { retryWrite } from './retry-write.ts'

/** After the database refused a claim. */
const CLAIM_PAUSE_MS = 1000
/** One claim takes no more than this, so that its transaction stays short. */
const CLAIM_LIMIT = 256

export interface WorkerOptions {
  readonly store: Store
  readonly node: string
  readonly clock: Clock
  readonly concurrency: number
  readonly runTimeoutMs: number
  /**
   * A job that was held at so many deaths of its node is run with no other such job beside it: one more death would
   * end it, and so only the one that kills is ended.
   */
  readonly suspectDeaths: number
  readonly run: (job: ClaimedJob, signal: StopSignal) => Promise<ExecutionResult | null>
  readonly events: WorkerEvents
}

/** What the rest of the program is told. */
export interface WorkerEvents {
  started(job: ClaimedJob): void
  /** The outcome is durable, or is not this node's to write (`stale`), or its job has vanished (`gone`). */
  settled(job: ClaimedJob, result: ExecutionResult, settled: Settled, runMs: number): void
  trouble(message: string, error: unknown): void
}

/** A run's result, and how long it took. */
interface Ran {
  readonly run: ExecutionResult
  readonly runMs: number
}

interface InHand {
  readonly job: ClaimedJob
  readonly stop: Stop
  /** Whether the database is known to have it, as held by this node. */
  stored: boolean
}

export class Worker implements Hands {
  readonly #options: WorkerOptions
  readonly #inHand = new Map<string, InHand>()
  /**
   * Jobs whose run has ended and of which the database rejects every outcome. They stay this node's, so that nobody runs
   * and pays for them again, until an operator cancels them or this process ends.
   */
  readonly #stuck = new Map<string, Claim>()
  #reserved = 0
  #suspects = 0
  /** Whether jobs may be waiting in the line. While they are, new jobs join it rather than pass it. */
  #lineMayWait = true
  /** Counts what joins the line, so that a claim that was under way meanwhile proves nothing. */
  #joined = 0
  #claiming = false
  #state: 'running' | 'draining' | 'stopped' = 'running'
  #onEmpty: (() => void)[] = []

  constructor(options: WorkerOptions) {
    this.#options = options
  }

  /** Jobs in hand. */
  get running(): number {
    return this.#inHand.size
  }

  get #room(): number {
    return this.#options.concurrency - this.#inHand.size - this.#reserved
  }

  reserve(count: number): number {
    if (this.#lineMayWait || this.#state !== 'running') {
      this.#lineMayWait = true
      return 0
    }
    const places = Math.max(0, Math.min(count, this.#room))
    if (places < count) this.#lineMayWait = true
    this.#reserved += places
    return places
  }

  release(count: number): void {
    this.#reserved -= count
    this.#placesFreed()
  }

  start(job: ClaimedJob, storing: Storing): void {
    this.#reserved -= 1
    this.#take(job, storing)
  }

  wake(): void {
    this.#joined += 1
    this.#lineMayWait = true
    this.#claimSoon()
  }

  /** What this node holds, as far as the database is known to have it so. */
  stored(): Claim[] {
    const stored = [...this.#inHand.values()].filter((inHand) => inHand.stored)
    return [...stored.map(({ job }) => claimOf(job)), ...this.#stuck.values()]
  }

  isRunning(jobId: string): boolean {
    return this.#inHand.has(jobId)
  }

  has({ jobId, attempt }: Claim): boolean {
    return (this.#inHand.get(jobId)?.job ?? this.#stuck.get(jobId))?.attempt === attempt
  }

  /** Ends the run of a job that this node no longer holds. Nothing is written of it. */
  lose({ jobId, attempt }: Claim): void {
    const inHand = this.#inHand.get(jobId)
    if (inHand?.job.attempt === attempt) inHand.stop.now('lost')
    if (this.#stuck.get(jobId)?.attempt === attempt) this.#stuck.delete(jobId)
  }

  /**
   * Claims no more; lets running jobs end for up to `graceMs`, then gives the rest back. Resolves when no job is in
   * hand. A second call waits for the same end.
   */
  async drain(graceMs: number): Promise<void> {
    if (this.#state === 'running') this.#state = 'draining'
    if (this.#isEmpty) return
    const empty = new Promise<void>((resolve) => this.#onEmpty.push(resolve))
    const cancel = this.#options.clock.after(graceMs, () => {
      this.#state = 'stopped'
      for (const { stop } of this.#inHand.values()) stop.now('give back')
    })
    await empty
    cancel()
  }

  /** Nothing in hand, and nothing on its way here. */
  get #isEmpty(): boolean {
    return this.#inHand.size === 0 && this.#reserved === 0 && !this.#claiming
  }

  #isSuspect(job: ClaimedJob): boolean {
    return job.crashCount >= this.#options.suspectDeaths
  }

  /** Another one may have been waiting for this one to end. */
  #nextSuspect(): void {
    this.#suspects -= 1
    this.#lineMayWait = true
    this.#joined += 1
  }

  #placesFreed(): void {
    this.#claimSoon()
    if (this.#isEmpty) for (const resolve of this.#onEmpty.splice(0)) resolve()
  }

  #claimSoon(): void {
    if (!this.#claiming && this.#lineMayWait && this.#room > 0 && this.#state === 'running') {
      this.#claiming = true
      void this.#claimAll()
    }
  }

  async #claimAll(): Promise<void> {
    const { store, node, clock, events, suspectDeaths } = this.#options
    while (this.#lineMayWait && this.#room > 0 && this.#state === 'running') {
      const places = Math.min(this.#room, CLAIM_LIMIT)
      const joined = this.#joined
      this.#reserved += places
      let jobs: ClaimedJob[] = []
      try {
        const suspects = { crashCount: suspectDeaths, limit: this.#suspects === 0 ? 1 : 0 }
        jobs = await store.claim(node, places, clock.nowMs(), suspects)
        if (jobs.length < places && joined === this.#joined) this.#lineMayWait = false
      } catch (error) {
        events.trouble('claiming jobs failed', error)
        await new Promise<void>((resolve) => {
          clock.after(CLAIM_PAUSE_MS, resolve)
        })
      } finally {
        this.#reserved -= places
      }
      for (const job of jobs) this.#take(job, STORED)
    }
    this.#claiming = false
    this.#placesFreed()
  }

  #take(job: ClaimedJob, storing: Storing): void {
    if (this.#isSuspect(job)) this.#suspects += 1
    const stop = new Stop()
    const inHand = { job, stop, stored: false }
    this.#inHand.set(job.id, inHand)
    const onStored = () => {
      inHand.stored = true
    }
    // Nobody is told of a run whose job was not stored, so it may as well end.
    storing.stored.then(onStored, () => stop.now('lost'))
    void this.#carry(job, stop, storing)
  }

  /** Carries one job from here to its end on this node. Never rejects. */
  async #carry(job: ClaimedJob, stop: Stop, storing: Storing): Promise<void> {
    const { events } = this.#options
    try {
      events.started(job)
      const result = await this.#runWithin(job, stop)
      if (result !== null) await this.#settle(job, result, storing)
      else if (stop.reason !== 'lost') await this.#giveBack(job, storing)
    } catch (error) {
      // A job that was not stored is nobody's: its caller has been told so. Anything else is a bug; the job is safe.
      if (!(error instanceof StoreUnavailable)) events.trouble(`carrying job ${job.id} failed`, error)
    } finally {
      this.#inHand.delete(job.id)
      if (this.#isSuspect(job)) this.#nextSuspect()
      this.#placesFreed()
    }
  }

  async #runWithin(job: ClaimedJob, stop: Stop): Promise<Ran | null> {
    const { clock, run, runTimeoutMs, events } = this.#options
    if (this.#state === 'stopped') return null
    const cancel = clock.after(runTimeoutMs, () => stop.now('deadline'))
    const startedMs = clock.steadyMs()
    try {
      const result = await run(job, stop)
      return result && { run: result, runMs: clock.steadyMs() - startedMs }
    } catch (error) {
      // A bug of ours must not leave the job unanswered for ever.
      events.trouble(`running job ${job.id} failed`, error)
      return { run: internalFailure(), runMs: clock.steadyMs() - startedMs }
    } finally {
      cancel()
    }
  }

  /** An outcome that the database rejects for good is replaced by a failure, which is stored in the same way. */
  async #settle(job: ClaimedJob, { run, runMs }: Ran, storing: Storing): Promise<void> {
    const { events } = this.#options
    let ended = run
    const instead = (error: WriteRejected): Settlement => {
      events.trouble(`the database rejects the outcome of job ${job.id}; it fails with internal_error`, error)
      ended = notStorable(run)
      return this.#settlementOf(job, ended)
    }
    const settlement = this.#settlementOf(job, run)
    if (storing.endWith(settlement, instead)) {
      await storing.stored
      events.settled(job, ended, 'settled', runMs)
      return
    }
    await storing.stored
    const settled = await this.#persist(settlement)
      .catch((error) => this.#persist(instead(asRejected(error))))
      .catch((error) => this.#keepStuck(job, asRejected(error)))
    if (settled !== 'given up') events.settled(job, ended, settled, runMs)
  }

  /** Rejects with `WriteRejected`. */
  #persist(settlement: Settlement): Promise<Settled | 'given up'> {
    const { store, clock, events } = this.#options
    return retryWrite(
      () => store.settle(settlement),
      clock,
      (error) => events.trouble(`settling job ${settlement.jobId} is tried again`, error),
      () => this.#state !== 'stopped',
    )
  }

  #keepStuck(job: ClaimedJob, error: WriteRejected): 'given up' {
    this.#stuck.set(job.id, claimOf(job))
    const message = `the database rejects any outcome of job ${job.id}; it is not run again before a restart: repair the database and restart, or cancel the job`
    this.#options.events.trouble(message, error)
    return 'given up'
  }

  #settlementOf(job: ClaimedJob, { outcome, usage, receipt, keep }: ExecutionResult): Settlement {
    const { node, clock } = this.#options
    return {
      jobId: job.id,
      node,
      attempt: job.attempt,
      model: job.model,
      outcome,
      usage,
      receiptJson: JSON.stringify(receipt),
      cache: keep,
      nowMs: clock.nowMs(),
    }
  }

  async #giveBack(job: ClaimedJob, { stored }: Storing): Promise<void> {
    await stored
    await this.#options.store.release(this.#options.node, [claimOf(job)])
  }
}

function claimOf({ id, attempt }: ClaimedJob): Claim {
  return { jobId: id, attempt }
}

/** Any other error is a bug, and goes on as one. */
function asRejected(error: unknown): WriteRejected {
  if (error instanceof WriteRejected) return error
  throw error
}
