/**
 * Executes jobs on this node: makes the claims that the scheduler plans, executes and settles the claimed jobs, and releases
 * the jobs that a draining node cannot finish.
 */
import { atTime, type Clock, wait } from '../clock.ts'
import type { ClaimedJob, Job } from '../job/job.ts'
import { queueName } from '../job/priority.ts'
import { TEXT_JSON } from '../job/response-format.ts'
import { Stop } from '../job/stop.ts'
import { type ByteShare, jobBytes } from '../sharing/byte-budget.ts'
import type { Claim } from '../store/node-store.ts'
import type { Claimed, ClaimedLargeJob, JobTexts, Store } from '../store/store.ts'
import { BUDGET_QUEUES } from '../store/usage-store.ts'
import { TransientMap } from '../transient-map.ts'
import type { Routes } from '../upstreams/routes.ts'
import type { AfterSettlement } from './after-settlement.ts'
import type { ExecuteJob } from './execute.ts'
import { internalFailure, type WaitingExecution } from './execution-result.ts'
import { AssigningCalls } from './node-lease.ts'
import { createOverdueSweep, failPastDeadline } from './overdue-sweep.ts'
import { retryWrite } from './retry-write.ts'
import type { PlannedClaim } from './route-queue.ts'
import { type HeldBack, isLarge, type Place, Scheduler } from './scheduler.ts'
import { type SettleOptions, settle } from './settle.ts'

/**
 * The timer of the next deadline waits at least this long, so that jobs whose deadlines are close together fail in one step.
 */
const LEAST_DEADLINE_PAUSE_MS = 20
const CLAIM_RETRY_MS = 1000
/** The worker looks this often for jobs that have waited too long, and for suspects that could not be claimed. */
export const LOOK_EVERY_MS = 5_000
/**
 * To share a transaction, a settlement waits at most for this fraction of its execution's time, and at most MAX_WRITE_WAIT_MS.
 */
const WRITE_WAIT = 0.01
const MAX_WRITE_WAIT_MS = 10
/** In the moving average of a model's execution times, the latest execution has this weight. */
const LATEST = 0.1

/**
 * Stands for the texts of a job that ends before they are loaded. The empty callback makes the dispatcher look for the real
 * one.
 */
const NO_TEXTS: JobTexts = { messagesJson: '[]', responseFormatJson: TEXT_JSON, callbackJson: '' }

interface HeldJob {
  readonly job: ClaimedJob | ClaimedLargeJob
  readonly stop: Stop
}

export interface WorkerOptions {
  readonly store: Store
  readonly node: string
  readonly clock: Clock
  readonly concurrency: number
  readonly bytes: ByteShare
  readonly runTimeoutMs: number
  readonly routes: Routes
  /** How long a job waits for model servers in total (`jobs.patience_seconds`). */
  readonly patienceMs: number
  /** A job with at least this crash count fails if it was the only one running in the last crash (`jobs.max_attempts`). */
  readonly maxAttempts: number
  readonly execute: ExecuteJob
  readonly afterSettlement: AfterSettlement
  readonly metrics: { started(job: ClaimedJob, nowMs: number): void }
  readonly onSuspects: (queued: number) => void
  /** The worker calls this when jobs wait for the budget of their account (`cost-cap-queue.ts`). */
  readonly onOverBudget: () => void
  readonly onError: (message: string, error: unknown) => void
}

export class Worker {
  readonly assigningCalls = new AssigningCalls()
  readonly #options: WorkerOptions
  readonly #settleOptions: SettleOptions
  readonly #scheduler: Scheduler
  readonly #failOverdue: () => Promise<void>
  readonly #held = new TransientMap<string, HeldJob>()
  /**
   * The database permanently rejects the outcomes of these jobs. This node holds the jobs until they are cancelled or the
   * process exits. Otherwise a node would execute and pay for them again.
   */
  readonly #unsettleable = new Map<string, Claim>()
  readonly #executionMs = new Map<string, number>()
  #claiming = false
  #mustLook = false
  #cancelLook: (() => void) | null = null
  #nextDeadline: { readonly ms: number; readonly cancel: () => void } | null = null
  #state: 'running' | 'draining' | 'stopped' = 'running'
  #onEmpty: (() => void)[] = []

  constructor(options: WorkerOptions) {
    const { store, node, clock, concurrency, bytes, routes, maxAttempts, onError } = options
    this.#options = options
    this.#scheduler = new Scheduler(concurrency, bytes, routes, maxAttempts)
    this.#failOverdue = createOverdueSweep({
      ...options,
      queuesOf: (route) => this.#scheduler.queuesOf(route),
    })
    this.#settleOptions = {
      store,
      node,
      clock,
      mayRetry: () => this.#state !== 'stopped',
      onError,
    }
    const onLimits = () => {
      this.#scheduler.limitsChanged()
      this.#lookLater()
      this.#claimWhilePlanned()
    }
    routes.watch(onLimits, () => this.#claimWhilePlanned())
  }

  get running(): number {
    return this.#held.size
  }

  get schedule(): Pick<Scheduler, 'held' | 'queues'> {
    return this.#scheduler
  }

  /** Counts the queued suspects of all nodes, and the running ones of this node. */
  get suspects(): { readonly queued: number; readonly running: number } {
    const { queued, running } = this.#scheduler.suspects
    return { queued, running }
  }

  /**
   * Takes places for the jobs that are about to be accepted, in order, up to the first one that must be queued. Use each place
   * with `execute`, or free it.
   * @param awaited whether a caller waits for the jobs
   */
  reserve(jobs: readonly Job[], awaited: boolean): Place[] {
    const places: Place[] = []
    if (this.#state === 'running') {
      for (const job of jobs) {
        const place = this.#scheduler.tryTake(job, awaited)
        if (place === null) break
        places.push(place)
      }
    }
    for (const job of jobs.slice(places.length)) this.#scheduler.queuedJob(job)
    return places
  }

  /** Call this after jobs without a place were accepted, and so were queued. */
  queued(jobs: readonly Job[]): void {
    for (const job of jobs) {
      this.#scheduler.queuedJob(job)
      if (job.deadlineMs !== undefined) this.#mayMiss(job.deadlineMs)
    }
    this.#claimWhilePlanned()
  }

  /**
   * Returns how long the store may delay the acceptance of a job to share a transaction. It is a small part of the usual
   * execution time of the model.
   */
  acceptanceWaitMs({ model }: Job): number {
    return writeWaitMs(this.#executionMs.get(model) ?? 0)
  }

  /** Call this with the places of jobs that were not accepted or need no execution. */
  free(places: readonly Place[]): void {
    for (const place of places) this.#scheduler.free(place, true)
    this.#capacityFreed()
  }

  /**
   * Call this when jobs may have been queued.
   * @param route the jobs' route; null if it is not known
   */
  wake(route: string | null = null): void {
    if (route !== null && BUDGET_QUEUES.includes(route)) {
      this.#options.onOverBudget()
      return
    }
    if (route === null) {
      this.#mustLook = true
      // A suspect that waits for a model server would move from node to node at every call. So while suspects are known, the
      // worker queries them only every LOOK_EVERY_MS.
      this.#scheduler.suspects.mustLook ||= this.#scheduler.suspects.queued === 0
    } else this.#scheduler.queued(route, null)
    this.#claimWhilePlanned()
  }

  heldBack(): readonly HeldBack[] {
    return this.#scheduler.heldBack()
  }

  claims(): Claim[] {
    return [...this.#held.values().map(({ job }) => claimOf(job)), ...this.#unsettleable.values()]
  }

  isRunning(jobId: string): boolean {
    return this.#held.get(jobId) !== undefined
  }

  holds({ jobId, attempt }: Claim): boolean {
    return (
      this.#held.get(jobId)?.job.attempt === attempt || this.#unsettleable.get(jobId)?.attempt === attempt
    )
  }

  /** Stops the execution of a job that this node no longer holds. Writes nothing. */
  lose({ jobId, attempt }: Claim): void {
    if (this.#unsettleable.get(jobId)?.attempt === attempt) this.#unsettleable.delete(jobId)
    const held = this.#held.get(jobId)
    if (held?.job.attempt === attempt) held.stop.now('lost')
  }

  /**
   * Stops claiming, lets executions continue for up to `graceMs`, then releases the remaining jobs. Resolves when no job is
   * being claimed, executed or settled. A second call waits for the same drain.
   */
  async drain(graceMs: number): Promise<void> {
    if (this.#state === 'running') this.#state = 'draining'
    this.#cancelLook?.()
    this.#nextDeadline?.cancel()
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
   * Executes a job that has a place, until the job ends on this node. Never rejects.
   * @param cacheKey see `ExecuteJob`
   */
  async execute(
    claimed: ClaimedJob | ClaimedLargeJob,
    place: Place,
    cacheKey?: string | null,
  ): Promise<void> {
    const { clock, onError } = this.#options
    const held = { job: claimed, stop: new Stop() }
    // If another node rescued the job, this node may have claimed it again before it noticed. The earlier execution is then
    // lost.
    this.#held.get(claimed.id)?.stop.now('lost')
    this.#held.set(claimed.id, held)
    const { deadlineMs } = claimed
    const cancelDeadline =
      deadlineMs === undefined ? null : atTime(clock, deadlineMs, () => held.stop.now('deadline'))
    let isSettled = false
    try {
      const job = isLarge(claimed) ? await this.#load(claimed, place, held.stop) : claimed
      if (job !== null) isSettled = await this.#run(job, place, held.stop, cacheKey)
      else if (held.stop.reason !== 'lost') await this.#release(claimed)
    } catch (error) {
      // The job is not lost, because the next comparison with the database, or a rescue, returns it to the queue.
      onError(`handling job ${claimed.id} failed`, error)
    } finally {
      cancelDeadline?.()
      // If this node has claimed the job again during this execution, the entry belongs to the later execution.
      if (this.#held.get(claimed.id) === held) this.#held.delete(claimed.id)
      this.#scheduler.free(place, isSettled)
      if (place.isSuspect) this.#lookLater()
      this.#capacityFreed()
    }
  }

  /**
   * Reserves the bytes of a large job, which may have to wait for them, and reads its texts. If the job is past its deadline,
   * returns it with `NO_TEXTS`. Returns null if the job was stopped for another reason, or was deleted.
   */
  async #load(claimed: ClaimedLargeJob, place: Place, stop: Stop): Promise<ClaimedJob | null> {
    const { store, clock, bytes, onError } = this.#options
    const { textBytes, ...job } = claimed
    const needed = jobBytes(textBytes)
    if (!(await bytes.reserve(job.account, needed, stop))) {
      return stop.reason === 'deadline' ? { ...job, ...NO_TEXTS } : null
    }
    place.bytes = needed
    const texts = await retryWrite(
      () => store.readTexts(job.id),
      clock,
      (error) => onError(`reading job ${job.id} failed; retrying`, error),
      () => stop.reason === null,
    )
    if (texts === null) stop.now('lost')
    if (stop.reason === 'deadline') return { ...job, ...NO_TEXTS }
    return texts === null || texts === 'given up' || stop.reason !== null ? null : { ...job, ...texts }
  }

  /** Returns false if the job was released or lost, and true if it was settled or cannot be settled. */
  async #run(job: ClaimedJob, place: Place, stop: Stop, cacheKey?: string | null): Promise<boolean> {
    const { clock, metrics, execute, runTimeoutMs, afterSettlement, onError } = this.#options
    metrics.started(job, clock.nowMs())
    const startedMs = clock.steadyMs()
    let result: Awaited<ReturnType<ExecuteJob>> = null
    if (this.#state !== 'stopped') {
      stop.startTimeout(clock, runTimeoutMs)
      const events = {
        arrived: () => this.#scheduler.arrived(place),
        ...(place.priority !== 'normal' && { priority: place.priority }),
        ...((place.isSuspect || place.isNewcomer) && {
          beforeCall: async () => {
            this.#scheduler.calls(place)
            if (place.isSuspect) await this.#recordStart(job, stop)
          },
        }),
      }
      try {
        result = await execute(job, stop, cacheKey, events)
      } catch (error) {
        // A bug must not leave the job without an outcome.
        onError(`executing job ${job.id} failed`, error)
        result = internalFailure(job)
      }
      stop.pause()
    }
    if (result === null) {
      if (stop.reason !== 'lost') await this.#release(job)
      return false
    }
    if (result.outcome === null) {
      await this.#releaseWaiting(job, result)
      return false
    }
    const executionMs = clock.steadyMs() - startedMs
    const average = this.#executionMs.get(job.model) ?? executionMs
    this.#executionMs.set(job.model, average + (executionMs - average) * LATEST)
    const settled = await settle(job, result, writeWaitMs(executionMs), this.#settleOptions)
    if (settled.settled === 'rejected') this.#unsettleable.set(job.id, claimOf(job))
    else if (settled.settled !== 'given up') {
      afterSettlement(job, settled.result, settled.settled, executionMs)
    }
    return true
  }

  /** Sets a timer that fails queued jobs with this deadline, unless an earlier timer is set. */
  #mayMiss(deadlineMs: number | null | undefined): void {
    if (deadlineMs == null || this.#state !== 'running') return
    if (this.#nextDeadline !== null && this.#nextDeadline.ms <= deadlineMs) return
    this.#nextDeadline?.cancel()
    const { clock } = this.#options
    const atMs = Math.max(deadlineMs, clock.nowMs() + LEAST_DEADLINE_PAUSE_MS)
    this.#nextDeadline = { ms: deadlineMs, cancel: atTime(clock, atMs, () => void this.#failPastDeadline()) }
  }

  /** Never rejects. The query that follows finds the next deadline, or these jobs again. */
  async #failPastDeadline(): Promise<void> {
    try {
      await failPastDeadline(this.#options)
    } catch (error) {
      this.#options.onError('could not fail jobs whose deadline has passed; retrying', error)
      await wait(this.#options.clock, CLAIM_RETRY_MS)
    }
    this.#nextDeadline = null
    this.#mustLook = true
    this.#claimWhilePlanned()
  }

  /** From then on, a crash of this node counts against the suspect. */
  async #recordStart(job: ClaimedJob, stop: Stop): Promise<void> {
    const { store, node, clock, onError } = this.#options
    await retryWrite(
      () => store.recordStarts(node, [claimOf(job)]),
      clock,
      (error) => onError(`recording the start of job ${job.id} failed; retrying`, error),
      () => stop.reason === null,
    )
  }

  async #release(job: Pick<ClaimedJob, 'id' | 'attempt'>): Promise<void> {
    const { store, node } = this.#options
    await store.release(node, [claimOf(job)])
  }

  /** Only this node knows the usage that has been paid for, so the write is retried like a settlement. */
  async #releaseWaiting(job: ClaimedJob, { wait }: WaitingExecution): Promise<void> {
    const { store, node, clock, routes } = this.#options
    const { mayRetry, onError } = this.#settleOptions
    const route = queueName(wait.route ?? routes.routeOf(job), job.priority)
    await retryWrite(
      () => store.releaseWaiting(node, [{ ...claimOf(job), ...wait, route }]),
      clock,
      (error) => onError(`releasing job ${job.id} failed; retrying`, error),
      mayRetry,
    )
    this.#scheduler.queued(route, job.account)
    this.#mayMiss(job.deadlineMs)
  }

  #capacityFreed(): void {
    this.#claimWhilePlanned()
    if (this.#onEmpty.length > 0 && this.#isEmpty) for (const resolve of this.#onEmpty.splice(0)) resolve()
  }

  get #isEmpty(): boolean {
    return this.#held.size === 0 && this.#scheduler.held === 0 && !this.#claiming
  }

  #claimWhilePlanned(): void {
    if (this.#claiming || this.#state !== 'running') return
    const mustLook = this.#mustLook || this.#scheduler.suspects.mustLook
    const claim = mustLook ? null : this.#scheduler.next()
    if (!mustLook && claim === null) return
    this.#claiming = true
    void this.#claimAll(claim)
  }

  /** @param first null to query the store first */
  async #claimAll(first: PlannedClaim | null): Promise<void> {
    for (let claim = first; ; claim = this.#scheduler.next()) {
      if (claim !== null) await this.#claim(claim)
      if (this.#state !== 'running') break
      if (this.#mustLook || this.#scheduler.suspects.mustLook) await this.#look()
      else if (claim === null) break
    }
    this.#claiming = false
    this.#capacityFreed()
  }

  /** Finds out which routes have queued jobs, and whether there are suspects. Never rejects; pauses after a failure. */
  async #look(): Promise<void> {
    const { store, clock, onSuspects, onError } = this.#options
    const { suspects } = this.#scheduler
    const before = suspects.queued
    try {
      if (this.#mustLook) {
        this.#mustLook = false
        const { routes, nextDeadlineMs } = await store.queued()
        for (const route of routes) {
          if (BUDGET_QUEUES.includes(route)) this.#options.onOverBudget()
          else this.#scheduler.queued(route, null)
        }
        this.#mayMiss(nextDeadlineMs)
      }
      if (suspects.mustLook) suspects.found(await store.queuedSuspects())
    } catch (error) {
      this.#mustLook = true
      onError('could not look for queued jobs; retrying', error)
      await wait(clock, CLAIM_RETRY_MS)
    }
    if (suspects.queued !== before) onSuspects(suspects.queued)
    this.#lookLater()
  }

  /** Never rejects. After a failed claim, pauses before it resolves. */
  async #claim(claim: PlannedClaim): Promise<void> {
    const { store, node, clock, onError } = this.#options
    this.#scheduler.begin(claim)
    const call = this.assigningCalls.begin()
    let claimed: Claimed
    try {
      claimed = await store.claim(node, claim.limit, clock.nowMs(), claim.from)
    } catch (error) {
      onError('could not claim jobs; retrying', error)
      await wait(clock, CLAIM_RETRY_MS)
      this.#scheduler.failed(claim)
      this.assigningCalls.end(call)
      return
    }
    const places = this.#scheduler.claimed(claim, claimed)
    for (const [index, job] of claimed.jobs.entries()) {
      const place = places[index]
      if (place !== undefined) void this.execute(job, place)
    }
    this.assigningCalls.end(call)
  }

  /**
   * While model servers are unavailable or suspects are queued, time alone may change what can run, so the look is repeated.
   */
  #lookLater(): void {
    const { clock, routes } = this.#options
    const { suspects } = this.#scheduler
    const isNeeded = routes.limited.size > 0 || routes.limitedAccounts.size > 0 || suspects.queued > 0
    if (!isNeeded || this.#cancelLook !== null || this.#state !== 'running') return
    this.#cancelLook = clock.after(LOOK_EVERY_MS, () => {
      this.#cancelLook = null
      suspects.mustLook = true
      void this.#failOverdue()
      this.#claimWhilePlanned()
      this.#lookLater()
    })
  }
}

function writeWaitMs(executionMs: number): number {
  return Math.min(executionMs * WRITE_WAIT, MAX_WRITE_WAIT_MS)
}

function claimOf({ id, attempt }: Pick<ClaimedJob, 'id' | 'attempt'>): Claim {
  return { jobId: id, attempt }
}
