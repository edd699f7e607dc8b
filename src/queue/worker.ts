/**
 * Executes jobs on this node: claims them while there is capacity, executes and settles them, and releases those that a
 * draining node cannot finish. claim-plan.ts decides what to claim next, and capacity.ts counts the capacity in use.
 */
import { type Clock, wait } from '../clock.ts'
import type { ClaimedJob, Job } from '../job/job.ts'
import { Stop } from '../job/stop.ts'
import type { ByteShare } from '../sharing/byte-budget.ts'
import type { Claim } from '../store/node-store.ts'
import type { Claimed, Store } from '../store/store.ts'
import { TransientMap } from '../transient-map.ts'
import type { Routes } from '../upstreams/routes.ts'
import type { AfterSettlement } from './after-settlement.ts'
import { AssigningCalls } from './assigning-calls.ts'
import { Capacity } from './capacity.ts'
import { ClaimPlan, type HeldBack, type PlannedClaim } from './claim-plan.ts'
import type { ExecuteJob } from './execute.ts'
import { internalFailure, type WaitingExecution } from './execution-result.ts'
import { LimitedRoutes } from './limited-routes.ts'
import { PoisonJobs } from './poison-jobs.ts'
import { retryWrite } from './retry-write.ts'
import { type SettleOptions, settle } from './settle.ts'

const NOTHING = {}
/** The pause after a failed claim. */
const CLAIM_RETRY_MS = 1000
/** The part of an execution's time by which its writes may come later, so that several share a transaction; and at most. */
const WRITE_WAIT = 0.01
const MAX_WRITE_WAIT_MS = 10
/** The weight of the latest execution in the average time of its model's. */
const LATEST = 0.1

/** A job that this node executes, and what ends its execution early. */
interface HeldJob {
  readonly job: ClaimedJob
  readonly stop: Stop
}

export interface WorkerOptions {
  readonly store: Store
  readonly node: string
  readonly clock: Clock
  /** Slots. */
  readonly concurrency: number
  /** The share of running jobs in the byte budget. */
  readonly bytes: ByteShare
  readonly runTimeoutMs: number
  readonly routes: Routes
  /** How long a job waits for model servers in total (`jobs.patience_seconds`). */
  readonly patienceMs: number
  /** A job with this crash count fails when it is claimed. */
  readonly maxAttempts: number
  readonly execute: ExecuteJob
  readonly afterSettlement: AfterSettlement
  readonly metrics: { started(job: ClaimedJob, nowMs: number): void }
  readonly onError: (message: string, error: unknown) => void
}

export class Worker {
  readonly assigningCalls = new AssigningCalls()
  readonly #options: WorkerOptions
  readonly #settleOptions: SettleOptions
  readonly #capacity: Capacity
  readonly #plan: ClaimPlan
  readonly #limited: LimitedRoutes
  readonly #poisonJobs: PoisonJobs
  readonly #held = new TransientMap<string, HeldJob>()
  /**
   * Jobs whose every outcome the database rejects. This node keeps them, so that no node executes and pays for them again,
   * until an operator cancels them or this process exits.
   */
  readonly #unsettleable = new Map<string, Claim>()
  /** How long executions of each model took lately. */
  readonly #executionMs = new Map<string, number>()
  #claiming = false
  #state: 'running' | 'draining' | 'stopped' = 'running'
  #onEmpty: (() => void)[] = []

  constructor(options: WorkerOptions) {
    const { store, node, clock, concurrency, bytes, maxAttempts, onError } = options
    this.#options = options
    this.#capacity = new Capacity(concurrency, bytes)
    this.#plan = new ClaimPlan(this.#capacity)
    const { routes, patienceMs } = options
    const onChange = () => this.wake()
    this.#limited = new LimitedRoutes({ routes, clock, patienceMs, capacity: this.#capacity, onChange })
    this.#poisonJobs = new PoisonJobs(maxAttempts)
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

  /**
   * Reserves capacity for the first of the jobs that are about to be accepted; returns for how many. None while jobs are
   * queued. Reserved capacity is used by `execute`, or freed.
   */
  reserve(jobs: readonly Job[]): number {
    let reserved = 0
    if (!this.#plan.mayBeQueued && this.#state === 'running') {
      for (const job of jobs) {
        if (this.#limited.isAny && this.#limited.blocks(job)) break
        if (!this.#capacity.tryTake(job)) break
        if (this.#limited.isAny) this.#limited.started(job)
        reserved += 1
      }
    }
    if (reserved < jobs.length) this.#noteQueued(reserved === 0 ? jobs : jobs.slice(reserved))
    return reserved
  }

  /** Jobs for which there was no capacity are queued now. */
  queued(jobs: readonly Job[]): void {
    this.#noteQueued(jobs)
    this.#claimWhilePlanned()
  }

  #noteQueued(jobs: readonly Job[]): void {
    const { routes } = this.#options
    const isFound = this.#limited.isAny
      ? jobs.filter((job) => !this.#limited.queued(routes.routeOf(job))).length > 0
      : true
    // A search does not look for jobs of an account that waits behind its own jobs.
    if (isFound) this.#plan.queued(jobs[0]?.account ?? null)
  }

  /** How long the acceptance of a job may wait for other writes, because executions of its model take far longer. */
  acceptanceWaitMs({ model }: Job): number {
    return writeWaitMs(this.#executionMs.get(model) ?? 0)
  }

  /** Frees the capacity of jobs that were not accepted. */
  free(jobs: readonly Job[]): void {
    for (const job of jobs) this.#capacity.release(job)
    for (const job of jobs) {
      this.#limited.ended(job)
      this.#plan.ended(job)
    }
    this.#capacityFreed()
  }

  /** Jobs may have been queued. @param account the account of the jobs, if known */
  wake(account: string | null = null): void {
    if (account === null) this.#limited.mayBeQueued()
    this.#plan.queued(account)
    this.#claimWhilePlanned()
  }

  /** Accounts whose queued jobs wait on this node although others' would not. */
  heldBack(): readonly HeldBack[] {
    return this.#plan.heldBack()
  }

  /** The claims that this node holds according to the store. */
  claims(): Claim[] {
    return [...this.#held.values().map(({ job }) => claimOf(job)), ...this.#unsettleable.values()]
  }

  isRunning(jobId: string): boolean {
    return this.#held.get(jobId) !== undefined
  }

  holds({ jobId, attempt }: Claim): boolean {
    return (this.#held.get(jobId)?.job ?? this.#unsettleable.get(jobId))?.attempt === attempt
  }

  /** Stops the execution of a job that this node no longer holds, without writing anything. Null if it was not held. */
  lose({ jobId, attempt }: Claim): ClaimedJob | null {
    if (this.#unsettleable.get(jobId)?.attempt === attempt) this.#unsettleable.delete(jobId)
    const held = this.#held.get(jobId)
    if (held?.job.attempt !== attempt) return null
    held.stop.now('lost')
    return held.job
  }

  /**
   * Stops claiming; lets executions continue for up to `graceMs`, then releases the other jobs. Resolves when no job is held.
   * A second call waits for the same drain.
   */
  async drain(graceMs: number): Promise<void> {
    if (this.#state === 'running') this.#state = 'draining'
    this.#limited.stop()
    if (this.#isEmpty) return
    const empty = new Promise<void>((resolve) => this.#onEmpty.push(resolve))
    const cancel = this.#options.clock.after(graceMs, () => {
      this.#state = 'stopped'
      for (const { stop } of this.#held.values()) stop.now('release')
    })
    await empty
    cancel()
  }

  /**
   * Executes a job for which capacity is reserved, from here to its end on this node. Never rejects.
   * @param cacheKey as in `ExecuteJob`
   */
  async execute(job: ClaimedJob, cacheKey?: string | null): Promise<void> {
    const { clock, metrics, execute, runTimeoutMs, afterSettlement, onError } = this.#options
    const stop = new Stop()
    const held = { job, stop }
    // Another node had taken it over, and this one has claimed it again before it noticed: the earlier run is lost.
    this.#held.get(job.id)?.stop.now('lost')
    this.#held.set(job.id, held)
    const isPoisonCandidate = job.crashCount > 0 && this.#poisonJobs.began(job)
    try {
      metrics.started(job, clock.nowMs())
      const startedMs = clock.steadyMs()
      let result: Awaited<ReturnType<ExecuteJob>> = null
      if (this.#state !== 'stopped') {
        stop.startDeadline(clock, runTimeoutMs)
        try {
          result = await execute(job, stop, cacheKey)
        } catch (error) {
          // A bug must not leave the job without an outcome.
          onError(`executing job ${job.id} failed`, error)
          result = internalFailure()
        }
        stop.pause()
      }
      const executionMs = clock.steadyMs() - startedMs
      if (result !== null && result.outcome === null) await this.#releaseWaiting(job, result)
      else if (result !== null) {
        const average = this.#executionMs.get(job.model) ?? executionMs
        this.#executionMs.set(job.model, average + (executionMs - average) * LATEST)
        const settled = await settle(job, result, writeWaitMs(executionMs), this.#settleOptions)
        if (settled.settled === 'rejected') this.#unsettleable.set(job.id, claimOf(job))
        else if (settled.settled !== 'given up') {
          afterSettlement(job, settled.result, settled.settled, executionMs)
        }
      } else if (stop.reason !== 'lost') await this.#release(job)
    } catch (error) {
      // The job is safe: another node, or the next comparison with the database, finds it.
      onError(`handling job ${job.id} failed`, error)
    } finally {
      // This node may have claimed the job again meanwhile.
      if (this.#held.get(job.id) === held) this.#held.delete(job.id)
      this.#capacity.release(job)
      if (this.#limited.isAny) this.#limited.ended(job)
      this.#plan.ended(job)
      if (isPoisonCandidate) {
        this.#poisonJobs.ended()
        this.#limited.mayBeQueued()
        // Another one may have been queued until now.
        this.#plan.queued(null)
      }
      this.#capacityFreed()
    }
  }

  async #release(job: ClaimedJob): Promise<void> {
    const { store, node } = this.#options
    await store.release(node, [claimOf(job)])
  }

  /** Retried like a settlement, because only this node knows what the job has paid for. */
  async #releaseWaiting(job: ClaimedJob, { wait }: WaitingExecution): Promise<void> {
    const { store, node, clock } = this.#options
    const { mayRetry, onError } = this.#settleOptions
    await retryWrite(
      () => store.releaseWaiting(node, [{ ...claimOf(job), ...wait }]),
      clock,
      (error) => onError(`releasing job ${job.id} failed; retrying`, error),
      mayRetry,
    )
    if (!this.#limited.queued(wait.route)) this.#plan.queued(null)
  }

  #capacityFreed(): void {
    if (this.#plan.mayBeQueued || this.#limited.isAny) this.#claimWhilePlanned()
    if (this.#onEmpty.length > 0 && this.#isEmpty) for (const resolve of this.#onEmpty.splice(0)) resolve()
  }

  /** No jobs are held or on their way here. */
  get #isEmpty(): boolean {
    return this.#held.size === 0 && this.#capacity.held.total === 0 && !this.#claiming
  }

  #nextClaim(): PlannedClaim | null {
    if (this.#state !== 'running') return null
    return (this.#limited.isAny ? this.#limited.next() : null) ?? this.#plan.next()
  }

  #claimWhilePlanned(): void {
    if (this.#claiming) return
    const claim = this.#nextClaim()
    if (claim === null) return
    this.#claiming = true
    void this.#claimAll(claim)
  }

  async #claimAll(first: PlannedClaim): Promise<void> {
    for (let claim: PlannedClaim | null = first; claim !== null; claim = this.#nextClaim()) {
      this.#capacity.beginClaim(claim.limit)
      const [{ wakeUps }, { wakeUps: ofLimited }] = [this.#plan, this.#limited]
      const call = this.assigningCalls.begin()
      const claimed = await this.#claim(claim)
      this.#capacity.endClaim(claim.limit)
      const jobs = claimed?.jobs ?? []
      for (const job of jobs) {
        this.#capacity.take(job, claim.fromReserve)
        this.#limited.started(job)
      }
      const { ofRoute } = claim.bounds
      if (claimed !== null && ofRoute === undefined) this.#plan.learn(claim, claimed, wakeUps)
      else if (claimed !== null && ofRoute !== undefined)
        this.#limited.learn(claim, ofRoute, claimed, ofLimited)
      for (const job of jobs) void this.execute(job)
      this.assigningCalls.end(call)
    }
    this.#claiming = false
    this.#capacityFreed()
  }

  /** Never rejects. If the claim fails, it pauses and returns null. */
  async #claim({ limit, bounds }: PlannedClaim): Promise<Claimed | null> {
    const { store, node, clock, onError } = this.#options
    const candidates = this.#poisonJobs.claimable
    try {
      const except = bounds.ofRoute === undefined ? this.#limited.bounds : NOTHING
      return await store.claim(node, limit, clock.nowMs(), { ...bounds, ...except, candidates })
    } catch (error) {
      onError('could not claim jobs; retrying', error)
      await wait(clock, CLAIM_RETRY_MS)
      return null
    }
  }
}

function writeWaitMs(executionMs: number): number {
  return Math.min(executionMs * WRITE_WAIT, MAX_WRITE_WAIT_MS)
}

function claimOf({ id, attempt }: ClaimedJob): Claim {
  return { jobId: id, attempt }
}
