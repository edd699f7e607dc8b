/** Creates the parts of an engine from the settings, and connects them to the log and the metrics. */
import { CallbackDispatcher, type CallbackDispatcherOptions } from '../callbacks/dispatcher.ts'
import { type Clock, wholeMs } from '../clock.ts'
import type { Role } from '../config/allowed-values.ts'
import { addressRulesOf } from '../config/conversions.ts'
import type { Configuration } from '../config/load.ts'
import type { Settings } from '../config/settings.ts'
import type { CpuPool } from '../cpu-pool/cpu-pool.ts'
import { SIMULATED_HEADER } from '../http/parley-headers.ts'
import { createPoster, type Poster } from '../net/post.ts'
import type { AfterSettlement } from '../queue/after-settlement.ts'
import { Cancellation } from '../queue/cancellation.ts'
import { ContextShifts } from '../queue/context-shift.ts'
import type { CurrentPrices } from '../queue/current-prices.ts'
import { createExecuteJob } from '../queue/execute.ts'
import { type Heartbeat, NodeLease } from '../queue/node-lease.ts'
import type { PendingResponses } from '../queue/pending-responses.ts'
import type { AnswerReader } from '../queue/read-answer.ts'
import { RemoteResults } from '../queue/remote-results.ts'
import type { CacheKeyOf } from '../queue/response-cache.ts'
import { Worker } from '../queue/worker.ts'
import type { ByteBudget } from '../sharing/byte-budget.ts'
import type { Store } from '../store/store.ts'
import { errorFields, type Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { isTracing, tracedExecution, tracedPoster } from '../telemetry/traces.ts'
import type { Router } from '../upstreams/model-server.ts'
import type { ModelRouter } from '../upstreams/router.ts'
import type { Routes } from '../upstreams/routes.ts'
import { jobSlots } from './slots.ts'

export interface NodeParts {
  readonly store: Store
  readonly node: string
  readonly clock: Clock
  readonly settings: Settings
  readonly worker: Worker
  readonly pendingResponses: PendingResponses
  readonly log: Log
  readonly metrics: Metrics
}

export type StartHeartbeat = (onExpired: () => void) => Promise<Heartbeat>

export interface HeartbeatParts extends Pick<NodeParts, 'settings' | 'node' | 'clock' | 'log'> {
  /** Reports that the heartbeat thread has exited. The process must then exit before its lease expires. */
  readonly onFatal: (error: Error) => void
}

export interface EngineParts
  extends Omit<NodeParts, 'worker' | 'pendingResponses'>,
    Pick<CallbackParts, 'poster' | 'random'> {
  readonly simulated?: boolean
  readonly role: Role
  readonly randomHex: (bytes: number) => string
  readonly pool: Pick<CpuPool, 'run'>
  readonly upstreams: ModelRouter
  /** `prices` is null if no model has a price. */
  readonly prices: CurrentPrices | null
  readonly startHeartbeat: StartHeartbeat
}

export function heartbeatStarter({ settings, node, clock, log, onFatal }: HeartbeatParts): StartHeartbeat {
  return async (onExpired) => {
    // SQLite has no leases, so only a node on Postgres loads this module.
    const { startHeartbeat } = await import('./heartbeat.ts')
    const onError = (error: Error) => log.warn(errorFields(error), 'could not renew the lease; retrying')
    return startHeartbeat({ settings, node, clock, onExpired, onError, onFatal })
  }
}

export function createNodeLease({
  settings,
  log,
  metrics,
  ...parts
}: NodeParts & { readonly startHeartbeat: StartHeartbeat }): NodeLease {
  return new NodeLease({
    ...parts,
    leaseMs: wholeMs(settings.jobs.lease_seconds),
    events: {
      rescued: (jobs) => {
        metrics.rescued(jobs)
        log.info({ jobs }, 'rescued the jobs of a dead process; they are queued again')
      },
      reverted: (crashes) => {
        metrics.crashesReverted(crashes)
        log.info({ crashes }, 'reverted crashes of jobs: the node that ran them was only paused and is back')
      },
      lost: (jobs) => {
        metrics.leaseLost()
        log.warn({ jobs }, 'the lease of this node expired; other nodes run its jobs')
      },
      gone: (jobs) => log.debug({ jobs }, 'stopped jobs that this node no longer holds'),
      error: (message, error) => log.warn(errorFields(error), message),
    },
  })
}

export function createRemoteResults({
  store,
  clock,
  worker,
  pendingResponses,
  log,
}: NodeParts): RemoteResults {
  return new RemoteResults({
    store,
    clock,
    awaited: () => pendingResponses.jobIds().filter((jobId) => !worker.isRunning(jobId)),
    awaitsExisting: (jobId) => pendingResponses.awaitsExisting(jobId),
    onVanished: (jobId) => pendingResponses.vanished(jobId),
    onEnded: ({ cacheHit, ...record }) =>
      pendingResponses.end(record.id, { kind: 'settled', record, cacheHit }),
    onError: (error) => log.warn(errorFields(error), 'could not read the results of other nodes; retrying'),
  })
}

export function createCancellation(parts: NodeParts, remoteResults: RemoteResults): Cancellation {
  const { store, node, clock, worker, pendingResponses, log } = parts
  return new Cancellation({
    store,
    node,
    clock,
    worker,
    pendingResponses,
    remoteResults,
    onError: (error) => log.error(errorFields(error), 'could not read cancelled jobs; retrying'),
  })
}

export interface CallbackParts
  extends Pick<CallbackDispatcherOptions, 'node' | 'store' | 'clock' | 'bytes' | 'poster' | 'random'> {
  readonly settings: Settings
  readonly log: Log
  readonly metrics: Metrics
}

export function createCallbackPoster(
  { settings, simulated }: Pick<Configuration, 'settings' | 'simulated'>,
  clock: Clock,
): Poster {
  const { concurrency, retry_concurrency, concurrency_per_origin, timeout_seconds } = settings.callbacks
  const untraced = createPoster({
    rules: addressRulesOf(settings),
    timeoutMs: wholeMs(timeout_seconds),
    idle: { total: concurrency + retry_concurrency, perOrigin: concurrency_per_origin },
    clock,
  })
  const poster = isTracing() ? tracedPoster(untraced) : untraced
  if (!simulated) return poster
  return {
    post: ({ headers, ...request }) => poster.post({ ...request, headers: markedSimulated(headers) }),
    close: () => poster.close(),
  }
}

/** Marks answers of the simulator. A header of the caller with the same name is replaced. */
function markedSimulated(headers: Readonly<Record<string, string>>): Record<string, string> {
  const others = Object.entries(headers).filter(([name]) => name.toLowerCase() !== SIMULATED_HEADER)
  return { ...Object.fromEntries(others), [SIMULATED_HEADER]: 'true' }
}

export function createDispatcher({
  settings,
  store,
  node,
  clock,
  log,
  metrics,
  bytes,
  poster,
  random,
}: CallbackParts): CallbackDispatcher {
  const { concurrency, retry_concurrency, concurrency_per_origin, ...callbacks } = settings.callbacks
  const timeoutMs = wholeMs(callbacks.timeout_seconds)
  return new CallbackDispatcher({
    store,
    node,
    poster,
    clock,
    random,
    timeoutMs,
    pausesS: callbacks.retry_seconds,
    slots: { first: concurrency, retry: retry_concurrency },
    slotsPerOrigin: concurrency_per_origin,
    bytes,
    onAttempt: ({ jobId, account }, attempt, next) => {
      metrics.calledBack(attempt, next)
      const { status, ms } = attempt
      const fields = { job_id: jobId, account, attempt: attempt.attempt, status, ms }
      if (next === 'delivered') log.debug(fields, 'callback delivered')
      else if (next === 'due') log.warn(fields, 'callback failed; retrying later')
      else log.warn(fields, 'callback failed permanently')
    },
    onError: (error) => log.error(errorFields(error), 'an error delays callbacks; retrying'),
  })
}

interface ContextShiftParts extends Pick<EngineParts, 'pool' | 'clock' | 'metrics' | 'log'> {
  readonly weightOf: (tier: string) => number
}

export function createContextShifts({ metrics, log, ...parts }: ContextShiftParts): ContextShifts {
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

export function createWorker(parts: WorkerParts): Worker {
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
