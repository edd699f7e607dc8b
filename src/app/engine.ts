/**
 * Connects the parts of a node that accept and run jobs: everything between the HTTP routes and the outside world. Time,
 * randomness, the store, model servers, receivers and threads are passed in. `service.ts` passes the real ones; the simulation
 * (`test/simulation/`) passes ones that a seed determines.
 */
import { type Clock, wholeMs } from '../clock.ts'
import type { Role } from '../config/allowed-values.ts'
import { addressRulesOf, exactCountThresholds, tiersOf } from '../config/conversions.ts'
import type { Settings } from '../config/settings.ts'
import type { CpuPool } from '../cpu-pool/cpu-pool.ts'
import { jobIdMaker } from '../job/job-id.ts'
import { Tiers } from '../job/tier.ts'
import { type AfterSettlement, createAfterSettlement } from '../queue/after-settlement.ts'
import { ContextShifts } from '../queue/context-shift.ts'
import { CostCapQueue } from '../queue/cost-cap-queue.ts'
import type { CurrentPrices } from '../queue/current-prices.ts'
import { Enqueuer } from '../queue/enqueue.ts'
import { createExecuteJob } from '../queue/execute.ts'
import { JobAndTokenCaps } from '../queue/job-and-token-caps.ts'
import { JobCreator } from '../queue/job-creator.ts'
import { PendingResponses } from '../queue/pending-responses.ts'
import { Quotas } from '../queue/quotas.ts'
import { AnswerReader } from '../queue/read-answer.ts'
import { type CacheKeyOf, cacheKeys } from '../queue/response-cache.ts'
import { retentionLoop } from '../queue/retention.ts'
import { Worker } from '../queue/worker.ts'
import { ByteBudget, callbackBytes } from '../sharing/byte-budget.ts'
import { BUDGET_QUEUES } from '../store/usage-store.ts'
import { errorFields } from '../telemetry/log.ts'
import { activeTraceparent, isTracing, tracedExecution, tracedRouter } from '../telemetry/traces.ts'
import type { Router } from '../upstreams/model-server.ts'
import type { ModelRouter } from '../upstreams/router.ts'
import type { Routes } from '../upstreams/routes.ts'
import { type CallbackParts, createDispatcher } from './callbacks.ts'
import {
  createCancellation,
  createNodeLease,
  createRemoteResults,
  type NodeParts,
  type StartHeartbeat,
} from './node.ts'
import { jobSlots, memoryBytes } from './slots.ts'

export interface EngineParts
  extends Omit<NodeParts, 'worker' | 'pendingResponses'>,
    Pick<CallbackParts, 'poster' | 'random'> {
  /** Whether the simulator answers instead of model servers; false if absent. */
  readonly simulated?: boolean
  readonly role: Role
  /** Returns this many random bytes, in hex. */
  readonly randomHex: (bytes: number) => string
  readonly pool: Pick<CpuPool, 'run'>
  readonly upstreams: ModelRouter
  /** Null if no model has a price. */
  readonly prices: CurrentPrices | null
  /** Takes the lease, and keeps renewing it. */
  readonly startHeartbeat: StartHeartbeat
}

export type Engine = ReturnType<typeof createEngine>

export function createEngine(parts: EngineParts) {
  const { settings, role, node, store, clock, randomHex, log, metrics, pool, upstreams } = parts
  const executes = role !== 'api'
  const tiers = new Tiers(tiersOf(settings))
  const router = isTracing() ? tracedRouter(upstreams) : upstreams
  const pendingResponses = new PendingResponses(clock, settings.sync.max_waiters)
  const bytes = createByteBudget(settings)
  const dispatcher = createDispatcher({ ...parts, bytes: bytes.callbacks })
  const common = { ...parts, pendingResponses, bytes }
  const weightOf = (tier: string) => tiers.of(tier).weight
  const answers = new AnswerReader({ pool, maxDepth: settings.limits.json_depth, weightOf })
  const contextShifts = createContextShifts({ pool, clock, weightOf, metrics, log })
  const budget: CostCapQueue = new CostCapQueue({
    store,
    clock,
    tiers,
    prices: parts.prices,
    routeOf: (job) => upstreams.routeOf(job),
    onQueued: (route) => {
      if (executes) worker.wake(route)
    },
    onError: (error) => log.warn(errorFields(error), 'could not queue jobs that wait for a budget; retrying'),
  })
  const afterSettled = createAfterSettlement({ ...common, dispatcher })
  const afterPriced: AfterSettlement = (job, ...settled) => {
    afterSettled(job, ...settled)
    budget.jobEnded(job.account)
  }
  const afterSettlement = parts.prices === null ? afterSettled : afterPriced
  const cacheKeyOf = cacheKeys({ enabled: settings.cache.enabled, simulated: parts.simulated ?? false })
  const execution = { router, routes: upstreams, answers, contextShifts, cacheKeyOf, afterSettlement }
  const onOverBudget = () => budget.look()
  const worker: Worker = createWorker({ ...common, ...execution, onOverBudget })
  const lease = createNodeLease({ ...common, worker })
  const remoteResults = createRemoteResults({ ...common, worker })
  const cancellation = createCancellation({ ...common, worker }, remoteResults)
  const enqueuer = new Enqueuer({
    store,
    worker: role === 'api' ? null : worker,
    node,
    clock,
    stepOf: tiers.stepOf,
    routeOf: (job) => upstreams.routeOf(job),
    cacheKeyOf,
    metrics,
    afterSettlement,
    budget,
  })
  const retentionMs = wholeMs(settings.jobs.retention_seconds)
  const creator = new JobCreator({
    store,
    enqueuer,
    pendingResponses,
    models: exactCountThresholds(settings),
    prices: parts.prices,
    addresses: addressRulesOf(settings),
    makeId: jobIdMaker(clock, randomHex),
    jobAndTokenCaps: new JobAndTokenCaps(store, clock),
    quotas: new Quotas({ store, clock }),
    budget,
    onQuotaReached: metrics.quotaReached,
    clock,
    ...(isTracing() && { traceparent: activeTraceparent }),
    // An idempotency key is not remembered longer than its jobs are stored.
    idempotencyMs: Math.min(wholeMs(settings.limits.idempotency_seconds), retentionMs),
  })
  const retention = retentionLoop({
    store,
    clock,
    retentionMs,
    onError: (error) => log.warn(errorFields(error), 'could not delete expired jobs; retrying'),
  })
  /** Rejects if the lease cannot be taken, or if the jobs of an earlier process cannot be rescued. */
  async function start(): Promise<void> {
    if (executes) await lease.start()
    store.subscribe({
      jobsWaiting: (route) => {
        if (executes) worker.wake(route)
        else if (route !== null && BUDGET_QUEUES.includes(route)) budget.look()
      },
      settled: (jobIds) => void remoteResults.settled(jobIds.filter((id) => pendingResponses.has(id))),
    })
    if (executes) {
      worker.wake()
      dispatcher.start()
    } else if (parts.prices !== null) budget.look()
    if (role !== 'worker') remoteResults.start()
    cancellation.start()
    retention.start()
  }

  const drainMs = wholeMs(settings.jobs.drain_seconds)
  const polls = [retention, remoteResults, cancellation, budget]
  const running = { clock, drainMs, polls, pendingResponses, worker, dispatcher, lease, router: upstreams }
  const stop = (clients: Clients) => shutDown(running, clients)

  return { tiers, pendingResponses, bytes, dispatcher, worker, cancellation, creator, start, stop }
}

/** Creates the byte budget from the settings and the heap limit of the process. */
function createByteBudget(settings: Settings): ByteBudget {
  return new ByteBudget(memoryBytes(settings), callbackBytes(settings.callbacks.in_flight_bytes))
}

/** What the detection of context shifts needs. */
interface ContextShiftParts extends Pick<EngineParts, 'pool' | 'clock' | 'metrics' | 'log'> {
  readonly weightOf: (tier: string) => number
}

function createContextShifts({ metrics, log, ...parts }: ContextShiftParts): ContextShifts {
  return new ContextShifts({
    ...parts,
    onShift: ({ jobId, target, promptTokens, counted }) => {
      metrics.contextShifted(target)
      const fields = { job_id: jobId, target, prompt_tokens: promptTokens, counted_tokens: counted }
      log.warn(
        fields,
        'the model server counted far fewer tokens than the conversation has; its context is probably too small, so it dropped a part (context shift)',
      )
    },
    onError: (error) =>
      log.warn(errorFields(error), 'could not count the tokens of an answered conversation'),
  })
}

const SUSPECTS =
  'jobs that were running when a node crashed are queued again; they run in small groups that grow, so that one that crashes the process is found'

interface WorkerParts
  extends Pick<EngineParts, 'store' | 'node' | 'clock' | 'settings' | 'prices' | 'log' | 'metrics'> {
  readonly router: Router
  readonly routes: Routes
  readonly answers: AnswerReader
  readonly contextShifts: ContextShifts
  readonly cacheKeyOf: CacheKeyOf
  readonly afterSettlement: AfterSettlement
  readonly bytes: ByteBudget
  readonly onOverBudget: () => void
}

function createWorker(parts: WorkerParts): Worker {
  const { store, router, answers, node, clock, settings, prices, log, metrics } = parts
  const execute = createExecuteJob({
    store,
    router,
    answers,
    contextShifts: parts.contextShifts,
    clock,
    cacheKeyOf: parts.cacheKeyOf,
    maxAttempts: settings.jobs.max_attempts,
    patienceMs: wholeMs(settings.jobs.patience_seconds),
    ...(prices && { isPriced: (model: string) => prices()?.isPriced(model) ?? false }),
    onError: (message, error) => log.error(errorFields(error), message),
  })
  return new Worker({
    store,
    node,
    clock,
    concurrency: jobSlots(settings),
    bytes: parts.bytes.jobs,
    runTimeoutMs: wholeMs(settings.jobs.run_timeout_seconds),
    routes: parts.routes,
    patienceMs: wholeMs(settings.jobs.patience_seconds),
    maxAttempts: settings.jobs.max_attempts,
    execute: isTracing() ? tracedExecution(execute) : execute,
    afterSettlement: parts.afterSettlement,
    metrics,
    onOverBudget: parts.onOverBudget,
    onSuspects: (queued) => {
      if (queued === 0)
        log.info({}, 'no suspects are left: jobs that were running when a node crashed have finished')
      else log.warn({ queued }, SUSPECTS)
    },
    onError: (message, error) => log.error(errorFields(error), message),
  })
}

/** After the last job of a stopping server has ended, clients have this long to read the response, in milliseconds. */
const LAST_ANSWERS_MS = 2000

/** The connections of clients. */
export interface Clients {
  /** Resolves when every request in progress has its response. */
  close(): Promise<void>
  /** Closes the connections that do not close by themselves. */
  cutOff(): void
}

interface Stoppable {
  stop(): Promise<void>
}

interface RunningParts {
  readonly clock: Clock
  /** How long running jobs may continue before they are released (`jobs.drain_seconds`). */
  readonly drainMs: number
  readonly polls: readonly Stoppable[]
  readonly pendingResponses: { stop(): void }
  readonly worker: { drain(drainMs: number): Promise<void> }
  readonly dispatcher: Stoppable
  readonly lease: Stoppable
  readonly router: Pick<ModelRouter, 'leaveRates' | 'close'>
}

/**
 * Shuts down in an order that loses no job: pending requests get their 202; executions end, or their jobs are released; the
 * lease ends last.
 */
async function shutDown(parts: RunningParts, clients: Clients): Promise<void> {
  const polls = parts.polls.map((poll) => poll.stop())
  parts.pendingResponses.stop()
  const closed = clients.close()
  const drained = parts.worker.drain(parts.drainMs)
  // Jobs that wait for a rate are released. The drain has begun before, so that this node does not claim them again.
  parts.router.leaveRates()
  await drained
  // Node stops its timeouts when the server closes, so a client that never finishes its request would keep the server running.
  const cancel = parts.clock.after(LAST_ANSWERS_MS, () => clients.cutOff())
  await Promise.all([closed, parts.dispatcher.stop(), ...polls])
  cancel()
  // Other nodes rescue the jobs of a node without a lease, so the lease ends last.
  await parts.lease.stop()
  await parts.router.close()
}
