/**
 * Connects the parts that accept and run jobs on a node: everything between the HTTP routes and the outside world. The caller
 * passes that world (time, randomness, the store, model servers, receivers, threads): `service.ts` passes the real one, and
 * the simulation (`test/simulation/`) one that is determined by a seed.
 */
import { getHeapStatistics } from 'node:v8'
import { type Clock, wholeMs } from '../clock.ts'
import type { Settings } from '../config/settings.ts'
import { tiersOf } from '../config/tiers.ts'
import type { CpuPool } from '../cpu-pool/cpu-pool.ts'
import { Tiers } from '../job/tier.ts'
import type { Poster } from '../net/post.ts'
import { createAfterSettlement } from '../queue/after-settlement.ts'
import { ContextShifts } from '../queue/context-shift.ts'
import { Enqueuer } from '../queue/enqueue.ts'
import { PendingResponses } from '../queue/pending-responses.ts'
import { AnswerReader } from '../queue/read-answer.ts'
import { cacheKeys } from '../queue/response-cache.ts'
import { retentionLoop } from '../queue/retention.ts'
import { ByteBudget, callbackBytes } from '../sharing/byte-budget.ts'
import type { Store } from '../store/store.ts'
import { errorFields, type Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { isTracing, tracedRouter } from '../telemetry/traces.ts'
import type { ModelRouter } from '../upstreams/router.ts'
import { createDispatcher } from './callbacks.ts'
import { createCancellation, createNodeLease, createRemoteResults, type StartHeartbeat } from './node.ts'
import type { Role } from './role.ts'
import { type Clients, shutDown } from './shutdown.ts'
import { createWorker } from './worker.ts'

export interface EngineParts {
  readonly settings: Settings
  /** Whether the simulator answers instead of model servers; false if absent. */
  readonly simulated?: boolean
  readonly role: Role
  readonly node: string
  readonly store: Store
  readonly clock: Clock
  /** From 0 up to but not including 1. */
  readonly random: () => number
  readonly log: Log
  readonly metrics: Metrics
  readonly pool: Pick<CpuPool, 'run'>
  readonly upstreams: ModelRouter
  readonly poster: Poster
  /** Takes the lease and renews it from then on. */
  readonly startHeartbeat: StartHeartbeat
}

export type Engine = ReturnType<typeof createEngine>

export function createEngine(parts: EngineParts) {
  const { settings, role, node, store, clock, log, metrics, pool, upstreams } = parts
  const tiers = new Tiers(tiersOf(settings))
  const router = isTracing() ? tracedRouter(upstreams) : upstreams
  const pendingResponses = new PendingResponses(clock, settings.sync.max_waiters)
  const bytes = createByteBudget(settings)
  const dispatcher = createDispatcher({ ...parts, bytes: bytes.callbacks })
  const common = { ...parts, pendingResponses, bytes }
  const weightOf = (tier: string) => tiers.of(tier).weight
  const answers = new AnswerReader({ pool, maxDepth: settings.limits.json_depth, weightOf })
  const contextShifts = createContextShifts({ pool, clock, weightOf, metrics, log })
  const afterSettlement = createAfterSettlement({ ...common, dispatcher })
  const cacheKeyOf = cacheKeys({ enabled: settings.cache.enabled, simulated: parts.simulated ?? false })
  const execution = { router, routes: upstreams, answers, contextShifts, cacheKeyOf, afterSettlement }
  const worker = createWorker({ ...common, ...execution })
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
  })
  const retention = retentionLoop({
    store,
    clock,
    retentionMs: wholeMs(settings.jobs.retention_seconds),
    onError: (error) => log.warn(errorFields(error), 'could not delete expired jobs; retrying'),
  })
  const executes = role !== 'api'

  /** Rejects if the lease cannot be taken, or the jobs of an earlier process cannot be rescued. */
  async function start(): Promise<void> {
    if (executes) await lease.start()
    store.subscribe({
      jobsWaiting: () => {
        if (executes) worker.wake()
      },
      settled: (jobIds) => void remoteResults.settled(jobIds.filter((id) => pendingResponses.has(id))),
    })
    if (executes) {
      worker.wake()
      dispatcher.start()
    }
    if (role !== 'worker') remoteResults.start()
    cancellation.start()
    retention.start()
  }

  const drainMs = wholeMs(settings.jobs.drain_seconds)
  const polls = [retention, remoteResults, cancellation]
  const stop = (clients: Clients) =>
    shutDown({ clock, drainMs, polls, pendingResponses, worker, dispatcher, lease, router }, clients)

  return { tiers, pendingResponses, bytes, dispatcher, worker, cancellation, enqueuer, start, stop }
}

/** Makes the byte budget from the settings and the heap limit of the process. */
function createByteBudget({ limits, callbacks }: Settings): ByteBudget {
  // Half: the rest is for memory that is not counted, and for garbage that V8 has not collected yet. Counted memory is partly
  // outside the heap, but a buffer of a text and the text itself are never far apart in size.
  const totalBytes = limits.memory_bytes ?? Math.floor(getHeapStatistics().heap_size_limit / 2)
  return new ByteBudget(totalBytes, callbackBytes(callbacks.in_flight_bytes))
}

/** Connects the detection of context shifts to the threads, the metrics and the log. */
interface ContextShiftParts {
  readonly pool: Pick<CpuPool, 'run'>
  readonly clock: Clock
  readonly weightOf: (tier: string) => number
  readonly metrics: Metrics
  readonly log: Log
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
