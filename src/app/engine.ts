/**
 * Connects the parts of a node that accept and run jobs, and shuts them down. The parts that depend on time, randomness,
 * threads or the network are parameters, so that the simulation (`test/simulation/`) can replace them.
 */
import { type Clock, wholeMs } from '../clock.ts'
import { addressRulesOf, exactCountThresholds, idempotencySeconds, tiersOf } from '../config/conversions.ts'
import { jobIdMaker } from '../job/job-id.ts'
import { Tiers } from '../job/tier.ts'
import { type AfterSettlement, createAfterSettlement } from '../queue/after-settlement.ts'
import { CostCapQueue } from '../queue/cost-cap-queue.ts'
import { Enqueuer } from '../queue/enqueue.ts'
import { JobAndTokenCaps } from '../queue/job-and-token-caps.ts'
import { JobCreator } from '../queue/job-creator.ts'
import { PendingResponses } from '../queue/pending-responses.ts'
import { Quotas } from '../queue/quotas.ts'
import { AnswerReader } from '../queue/read-answer.ts'
import { cacheKeys } from '../queue/response-cache.ts'
import { retentionLoop } from '../queue/retention.ts'
import type { Worker } from '../queue/worker.ts'
import { ByteBudget, callbackBytes } from '../sharing/byte-budget.ts'
import { BUDGET_QUEUES } from '../store/usage-store.ts'
import { errorFields } from '../telemetry/log.ts'
import { activeTraceparent, isTracing, tracedRouter } from '../telemetry/traces.ts'
import type { ModelRouter } from '../upstreams/router.ts'
import {
  createCancellation,
  createContextShifts,
  createDispatcher,
  createNodeLease,
  createRemoteResults,
  createWorker,
  type EngineParts,
} from './engine-parts.ts'
import { memoryBytes } from './slots.ts'

export type Engine = ReturnType<typeof createEngine>

export function createEngine(parts: EngineParts) {
  const { settings, role, node, store, clock, randomHex, log, metrics, pool, upstreams } = parts
  const executes = role !== 'api'
  const tiers = new Tiers(tiersOf(settings))
  const router = isTracing() ? tracedRouter(upstreams) : upstreams
  const pendingResponses = new PendingResponses(clock, settings.sync.max_waiters)
  const bytes = new ByteBudget(memoryBytes(settings), callbackBytes(settings.callbacks.in_flight_bytes))
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
    idempotencyMs: wholeMs(idempotencySeconds(settings)),
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

/** When a server shuts down, its clients have this long to read their responses after the last job has ended. */
const LAST_ANSWERS_MS = 2000

export interface Clients {
  /** Resolves when every request in progress has its response. */
  close(): Promise<void>
  /** Closes the remaining connections at once. */
  cutOff(): void
}

interface Stoppable {
  stop(): Promise<void>
}

interface RunningParts {
  readonly clock: Clock
  /** Running jobs may continue this long before they are released; the setting `jobs.drain_seconds`. */
  readonly drainMs: number
  readonly polls: readonly Stoppable[]
  readonly pendingResponses: { stop(): void }
  readonly worker: { drain(drainMs: number): Promise<void> }
  readonly dispatcher: Stoppable
  readonly lease: Stoppable
  readonly router: Pick<ModelRouter, 'leaveRates' | 'close'>
}

/** Shuts down without losing a job: pending responses end without an answer, and jobs that do not end in time are released. */
async function shutDown(parts: RunningParts, clients: Clients): Promise<void> {
  const polls = parts.polls.map((poll) => poll.stop())
  parts.pendingResponses.stop()
  const closed = clients.close()
  const drained = parts.worker.drain(parts.drainMs)
  // This releases the jobs that wait for a rate. The drain has begun, so this node does not claim them again.
  parts.router.leaveRates()
  await drained
  // Node stops its request timeouts when the server closes. A client that never finishes its request would block the shutdown.
  const cancel = parts.clock.after(LAST_ANSWERS_MS, () => clients.cutOff())
  await Promise.all([closed, parts.dispatcher.stop(), ...polls])
  cancel()
  // The lease ends last, because other nodes take over the jobs of a node that has no lease.
  await parts.lease.stop()
  await parts.router.close()
}
