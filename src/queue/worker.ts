/**
 * Executes jobs on this node: claims them while there are free slots, executes and settles them, and releases what a
 * draining node cannot finish. At most `concurrency` jobs are held at once.
 */
import { type Clock, wait } from '../clock.ts'
import type { ClaimedJob } from '../job/job.ts'
import type { Claim } from '../store/node-store.ts'
import { type Store, StoreUnavailable, WriteRejected } from '../store/store.ts'
import type { AfterSettlement } from './after-settlement.ts'
import { type ExecuteJob, type ExecutionResult, internalFailure } from './execute.ts'
import { HeldJob } from './held-job.ts'
import { type SettleOptions, settle } from './settle.ts'

/** After a claim that failed. */
const CLAIM_RETRY_MS = 1000
/** The most jobs of one claim, so that its transaction stays short. */
const MAX_CLAIM = 256

export interface WorkerOptions {
  readonly store: Store
  readonly node: string
  readonly clock: Clock
  readonly concurrency: number
  readonly executionTimeoutMs: number
  /**
   * From this crash count on a job is a poison candidate: one more crash would end it, so it is executed with no other
   * candidate beside it, and only the job that kills its node is ended.
   */
  readonly poisonCrashCount: number
  /** A job with this crash count fails when it is claimed. */
  readonly maxAttempts: number
  readonly execute: ExecuteJob
  readonly afterSettlement: AfterSettlement
  readonly metrics: { started(job: ClaimedJob, nowMs: number): void }
  readonly onError: (message: string, error: unknown) => void
}

export class Worker {
  readonly #options: WorkerOptions
  readonly #settleOptions: SettleOptions
  readonly #held = new Map<string, HeldJob>()
  /**
   * Jobs whose every outcome the database rejects. They stay this node's, so that no node executes and pays for them
   * again, until an operator cancels them or this process ends.
   */
  readonly #unsettleable = new Map<string, Claim>()
  /** Slots of jobs that are being accepted or claimed. */
  #reserved = 0
  #poisonCandidates = 0
  /** Whether the queue may hold jobs. While it does, new jobs are queued rather than overtake them. */
  #mayBeQueued = true
  /** Counts what may have joined the queue, so that a claim that began before that does not prove it empty. */
  #wakeUps = 0
  #claiming = false
  #state: 'running' | 'draining' | 'stopped' = 'running'
  #onEmpty: (() => void)[] = []

  constructor(options: WorkerOptions) {
    const { store, node, clock, onError } = options
    this.#options = options
    this.#settleOptions = {
      store,
      node,
      clock,
      mayRetry: () => this.#state !== 'stopped',
      onError,
    }
  }

  /** How many jobs are held. */
  get running(): number {
    return this.#held.size
  }

  get #freeSlots(): number {
    return this.#options.concurrency - this.#held.size - this.#reserved
  }

  /** Reserves up to `count` slots for jobs about to be accepted; returns how many. None while jobs are queued. */
  reserve(count: number): number {
    if (this.#mayBeQueued || this.#state !== 'running') {
      this.#mayBeQueued = true
      return 0
    }
    const slots = Math.max(0, Math.min(count, this.#freeSlots))
    if (slots < count) this.#mayBeQueued = true
    this.#reserved += slots
    return slots
  }

  /** Frees reserved slots that were not used. */
  free(count: number): void {
    this.#reserved -= count
    this.#slotFreed()
  }

  /** Jobs may have been queued. */
  wake(): void {
    this.#wakeUps += 1
    this.#mayBeQueued = true
    this.#claimWhileFree()
  }

  /** What the store has as held by this node. */
  claims(): Claim[] {
    const stored = [...this.#held.values()].filter(({ state }) => state === 'stored')
    return [...stored.map(({ claim }) => claim), ...this.#unsettleable.values()]
  }

  isRunning(jobId: string): boolean {
    return this.#held.has(jobId)
  }

  holds({ jobId, attempt }: Claim): boolean {
    return (this.#held.get(jobId)?.job ?? this.#unsettleable.get(jobId))?.attempt === attempt
  }

  /** Ends the execution of a job that this node no longer holds, without writing anything. Null if it held none. */
  lose({ jobId, attempt }: Claim): ClaimedJob | null {
    if (this.#unsettleable.get(jobId)?.attempt === attempt) this.#unsettleable.delete(jobId)
    const held = this.#held.get(jobId)
    if (held?.job.attempt !== attempt) return null
    held.stop.now('lost')
    return held.job
  }

  /**
   * Claims no more; lets executions end for up to `graceMs`, then releases the other jobs. Resolves when no job is held.
   * A second call waits for the same end.
   */
  async drain(graceMs: number): Promise<void> {
    if (this.#state === 'running') this.#state = 'draining'
    if (this.#isEmpty) return
    const empty = new Promise<void>((resolve) => this.#onEmpty.push(resolve))
    const cancel = this.#options.clock.after(graceMs, () => {
      this.#state = 'stopped'
      for (const { stop } of this.#held.values()) stop.now('release')
    })
    await empty
    cancel()
  }

  /** Executes a job in a reserved slot, from here to its end on this node. Never rejects. */
  async execute(held: HeldJob): Promise<void> {
    const { clock, metrics, onError, poisonCrashCount } = this.#options
    const { job, stop } = held
    const isPoisonCandidate = job.crashCount >= poisonCrashCount
    this.#reserved -= 1
    this.#held.set(job.id, held)
    if (isPoisonCandidate) this.#poisonCandidates += 1
    try {
      metrics.started(job, clock.nowMs())
      const startedMs = clock.steadyMs()
      const result = await this.#executeWithin(held)
      const executionMs = clock.steadyMs() - startedMs
      if (result !== null) await this.#settle(held, result, executionMs)
      else if (stop.reason !== 'lost') await this.#release(held)
    } catch (error) {
      // A job that was not stored never existed, and its caller knows. Any other error is a bug; the job is safe.
      if (!(error instanceof StoreUnavailable)) onError(`handling job ${job.id} failed`, error)
    } finally {
      this.#held.delete(job.id)
      if (isPoisonCandidate) this.#poisonCandidateEnded()
      this.#slotFreed()
    }
  }

  async #executeWithin({ job, stop }: HeldJob): Promise<ExecutionResult | null> {
    const { clock, execute, executionTimeoutMs, onError } = this.#options
    if (this.#state === 'stopped') return null
    const cancel = clock.after(executionTimeoutMs, () => stop.now('deadline'))
    try {
      return await execute(job, stop)
    } catch (error) {
      // A bug must not leave the job without an outcome.
      onError(`executing job ${job.id} failed`, error)
      return internalFailure()
    } finally {
      cancel()
    }
  }

  async #settle(held: HeldJob, result: ExecutionResult, executionMs: number): Promise<void> {
    const { afterSettlement, onError } = this.#options
    const { job } = held
    try {
      const { settled, result: stored } = await settle(held, result, this.#settleOptions)
      if (settled !== 'unsettled') afterSettlement(job, stored, settled, executionMs)
    } catch (error) {
      if (!(error instanceof WriteRejected) || held.state !== 'stored') throw error
      this.#unsettleable.set(job.id, held.claim)
      const message = `the database rejects every outcome of job ${job.id}; it does not run again before a restart: repair the database and restart, or cancel the job`
      onError(message, error)
    }
  }

  async #release(held: HeldJob): Promise<void> {
    const { store, node } = this.#options
    await held.accepted
    await store.release(node, [held.claim])
  }

  /** Another candidate may have been queued until this one ended. */
  #poisonCandidateEnded(): void {
    this.#poisonCandidates -= 1
    this.#mayBeQueued = true
    this.#wakeUps += 1
  }

  #slotFreed(): void {
    if (this.#mayBeQueued) this.#claimWhileFree()
    if (this.#held.size === 0 && this.#isEmpty) for (const resolve of this.#onEmpty.splice(0)) resolve()
  }

  /** Nothing held, and nothing on its way here. */
  get #isEmpty(): boolean {
    return this.#held.size === 0 && this.#reserved === 0 && !this.#claiming
  }

  get #shouldClaim(): boolean {
    return this.#mayBeQueued && this.#freeSlots > 0 && this.#state === 'running'
  }

  #claimWhileFree(): void {
    if (this.#claiming || !this.#shouldClaim) return
    this.#claiming = true
    void this.#claimAll()
  }

  async #claimAll(): Promise<void> {
    while (this.#shouldClaim) {
      const slots = Math.min(this.#freeSlots, MAX_CLAIM)
      this.#reserved += slots
      const jobs = await this.#claim(slots)
      this.#reserved -= slots - jobs.length
      for (const job of jobs) void this.execute(new HeldJob(job, 'stored'))
    }
    this.#claiming = false
    this.#slotFreed()
  }

  /** Never rejects: a claim that fails is retried after a pause. */
  async #claim(slots: number): Promise<readonly ClaimedJob[]> {
    const { store, node, clock, onError, poisonCrashCount, maxAttempts } = this.#options
    const wakeUps = this.#wakeUps
    const limit = this.#poisonCandidates === 0 ? 1 : 0
    const poison = { crashCount: poisonCrashCount, limit, maxCrashCount: maxAttempts }
    try {
      const jobs = await store.claim(node, slots, clock.nowMs(), poison)
      if (jobs.length < slots && wakeUps === this.#wakeUps) this.#mayBeQueued = false
      return jobs
    } catch (error) {
      onError('claiming jobs failed; it is retried', error)
      await wait(clock, CLAIM_RETRY_MS)
      return []
    }
  }
}
