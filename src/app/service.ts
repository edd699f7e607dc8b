/**
 * Creates all parts of a server from its configuration, connects them, and starts and stops them in order. Decides whether the
 * server is ready: it is not stopping, and a small write to the database succeeds.
 */
import { randomBytes } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { performance } from 'node:perf_hooks'
import { adminToken } from '../admin/admin-tokens.ts'
import { NO_BATCHES } from '../batches/progress.ts'
import { type Clock, wait, wholeMs } from '../clock.ts'
import type { Role } from '../config/allowed-values.ts'
import type { Configuration } from '../config/load.ts'
import type { Settings } from '../config/settings.ts'
import { CpuPool } from '../cpu-pool/cpu-pool.ts'
import { admissionError } from '../http/errors.ts'
import { Listeners } from '../http/listeners.ts'
import { singleFlight } from '../lookup-cache.ts'
import { currentPrices } from '../queue/current-prices.ts'
import { Reruns } from '../queue/reruns.ts'
import { routeSignals, withoutBudgetQueues } from '../queue/route-signals.ts'
import type { Store } from '../store/store.ts'
import { diskOf, type Gauges } from '../telemetry/gauges.ts'
import { errorFields, type Log } from '../telemetry/log.ts'
import { MetricSamples } from '../telemetry/metric-samples.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import type { Otlp } from '../telemetry/otlp.ts'
import { busyMeter } from '../telemetry/runtime-metrics.ts'
import { activeTraceparent } from '../telemetry/traces.ts'
import type { ReadLarge } from '../upstreams/openai-client.ts'
import { VERSION } from '../version.ts'
import { createBatchRunner, tokenCounter } from './batches.ts'
import { createEngine } from './engine.ts'
import { createCallbackPoster, heartbeatStarter } from './engine-parts.ts'
import { createAdmin, createConnectionLimits, createHttp } from './http.ts'
import { jobSlots } from './slots.ts'
import { createRouter, createWakeCalls, modelServers, sharedRates } from './upstreams.ts'

export interface ServiceOptions {
  readonly configuration: Configuration
  readonly log: Log
  readonly role?: Role
  readonly clock?: Clock
  /** `otlp` is absent if no telemetry is exported. */
  readonly otlp?: Pick<Otlp, 'watch'>
  /** Reports that the storage thread or the heartbeat thread has exited. The process must exit and be restarted. */
  readonly onFatal: (error: Error) => void
}

export interface Service {
  readonly store: Store
  /** `adminTokenFile` is null if the token was configured or could not be stored. */
  readonly adminTokenFile: string | null
  /** Resolves with the URL, such as `http://127.0.0.1:8080`. */
  listen(): Promise<string>
  /**
   * Readiness ends first, so that proxies stop sending requests. The listener closes `shutdown.listen_seconds` later, and the
   * store last. A second call waits for the same shutdown.
   */
  stop(): Promise<void>
}

export interface OpenedParts extends ServiceOptions {
  readonly clock: Clock
  readonly metrics: Metrics
  readonly node: string
  readonly store: Store
  /** `file` is null with Postgres. */
  readonly file: string | null
}

/** Rejects with the problem that the operator must fix. The caller must then close the store. */
export async function connect(parts: OpenedParts): Promise<Service> {
  const { configuration, role = 'all', log, clock, metrics, node, store, file, onFatal } = parts
  const { settings, simulated } = configuration
  const pool = createCpuPool(settings, clock, metrics)
  const readLarge: ReadLarge = (completion, account, signal) =>
    pool.run('read completion', completion, { account, weight: 1 }, signal)
  const { random } = Math
  const prices = simulated
    ? null
    : currentPrices({ models: settings.models, store, warn: (message) => log.warn({}, message) })
  const upstreams = createRouter({
    configuration,
    clock,
    random,
    // The operator's own tracing may add the header to requests, so Parley adds it only if it exports telemetry itself.
    serverOf: modelServers(configuration, clock, readLarge, parts.otlp && activeTraceparent),
    onCall: metrics.called,
    prices,
    bookOf: sharedRates({ store, node, clock, warn: (message) => log.warn({}, message) }),
    log,
  })
  const common = { settings, simulated, role, store, node, clock, log, metrics, prices }
  const engine = createEngine({
    ...common,
    random,
    randomHex: (bytes) => randomBytes(bytes).toString('hex'),
    pool,
    upstreams,
    poster: createCallbackPoster({ settings, simulated }, clock),
    startHeartbeat: heartbeatStarter({ ...common, onFatal }),
  })
  const { bytes, dispatcher, worker, pendingResponses, cancellation } = engine
  const leaving = new AbortController()
  const closing = new AbortController()
  const stopping = new AbortController()
  const ready = async () => {
    if (leaving.signal.aborted) throw new Error('the server is stopping')
    await store.ping()
  }
  const connections = createConnectionLimits(settings, metrics, log)
  warnOfThreads(settings, log)
  const gauges: Gauges = {
    ready,
    depth: async () =>
      prices === null
        ? store.depth()
        : withoutBudgetQueues(...(await Promise.all([store.depth(), store.queueDepths()]))),
    callbackDepth: () => store.callbackDepth(),
    callbacksInProgress: () => dispatcher.inFlight,
    routes: async () => routeSignals(await store.queueDepths(), upstreams.waitingJobs()),
    running: () => worker.running,
    heldBack: () => worker.heldBack(),
    suspects: () => worker.suspects,
    pendingResponses: () => pendingResponses.count,
    batches: () => batches?.owned ?? NO_BATCHES,
    memory: () => bytes,
    connections: () => connections.open,
    busy: busyMeter(performance),
    // A node that runs no jobs calls no model servers, so it cannot know which of them are unavailable.
    upstreams: () => (role === 'api' ? [] : upstreams.state()),
    cpu: () => pool.state,
    disk: async () => (file === null ? null : diskOf(file)),
    slots: {
      jobs: jobSlots(settings),
      pendingResponses: settings.sync.max_waiters,
      connections: settings.limits.connections,
      cpuThreads: threadsOf(settings),
    },
    about: { version: VERSION, role, store: file === null ? 'postgres' : 'sqlite' },
    clock,
  }
  const samples = new MetricSamples({
    metrics,
    gauges,
    clock,
    onError: (error) => log.error(errorFields(error), 'could not take a metric sample'),
  })
  const { token, file: adminTokenFile, note } = adminToken(configuration.adminToken, file)
  if (note !== null) log.warn({}, note)
  const retentionMs = wholeMs(settings.jobs.retention_seconds)
  const expiry = () => ({ nowMs: clock.nowMs(), retentionMs })
  const reruns = new Reruns({
    store,
    creator: engine.creator,
    tiers: engine.tiers,
    countTokens: tokenCounter(pool),
    clock,
    expiry,
    describe: (error) => admissionError(error).message,
    onMade: (jobId, rerunId) => log.info({ job_id: rerunId, rerun_of: jobId }, 'made a rerun'),
    onError: (error) => log.warn(errorFields(error), 'could not make a rerun; retrying'),
  })
  const admin = createAdmin({
    configuration,
    token,
    node,
    role,
    store,
    routes: upstreams,
    clock,
    gauges,
    samples,
    cancellation,
    reruns,
    expiry,
    log,
  })
  const batches = role === 'api' ? null : createBatchRunner({ ...common, ...engine, pool })
  const wakeCalls = role === 'api' ? null : createWakeCalls({ ...common, upstreams, signal: stopping.signal })
  const app = await createHttp({
    ...common,
    ...engine,
    connections,
    pool,
    ready,
    queuedRoutes: singleFlight(gauges.routes),
    closing: closing.signal,
    stopping: stopping.signal,
    admin,
    onBatchChanged: () => batches?.wake(),
  })
  const listeners = new Listeners(app)
  metrics.watch(gauges)
  samples.begin()
  await engine.start()
  reruns.start()
  batches?.start()
  wakeCalls?.start()
  log.info({ node, role }, 'serving')

  const listenMs = wholeMs(settings.shutdown.listen_seconds)
  let isListening = false
  const stopAll = async (): Promise<void> => {
    leaving.abort()
    if (isListening && listenMs > 0) {
      log.info(
        { seconds: listenMs / 1000 },
        'no longer ready; still accepting requests (shutdown.listen_seconds)',
      )
      await wait(clock, listenMs)
      closing.abort()
      await listeners.stopAccepting()
      await wait(clock, LAST_REQUESTS_MS)
    }
    closing.abort()
    stopping.abort()
    samples.stop()
    const polls = [reruns.stop(), batches?.stop(), wakeCalls?.stop()]
    await engine.stop({
      close: () => listeners.close(),
      cutOff: () => app.server.closeAllConnections(),
    })
    await Promise.all(polls)
    await pool.close()
    await store.close()
  }
  let stopped: Promise<void> | null = null
  return {
    store,
    adminTokenFile,
    listen: async () => {
      const url = await listeners.listen({ host: settings.host, port: settings.port })
      isListening = true
      return url
    },
    stop: () => {
      stopped ??= stopAll()
      return stopped
    },
  }
}

/** A proxy may have sent requests before it noticed the closed listener. For this time, open connections still answer them. */
const LAST_REQUESTS_MS = 500

/** The setting `threads` has no effect. It exists only so that configuration files of version 0.3 stay valid. */
function warnOfThreads({ threads }: Settings, log: Log): void {
  if (threads === 'auto' || threads === 1) return
  log.warn(
    { threads },
    'the setting threads has no effect: one thread serves HTTP. To use more cores, run several nodes on one Postgres (docs/scaling.md), and remove the setting or --threads',
  )
}

/** By default, there are at least this many threads, because a single long task must not block all others. */
const FEWEST_THREADS = 2
/** By default, there are at most this many threads. More would rarely be used, and each may take `cpu.thread_heap_mb`. */
const MOST_THREADS = 8

/** A task that uses more CPU time than this hangs, so its thread is terminated. */
const TASK_CPU_MS = 30_000
/** An idle thread lives this long, because a new one must load the tokenizer, which takes up to a second. */
const IDLE_MS = 300_000

function threadsOf({ cpu }: Settings): number {
  return cpu.threads ?? Math.max(FEWEST_THREADS, Math.min(MOST_THREADS, availableParallelism()))
}

function createCpuPool(settings: Settings, clock: Clock, metrics: Metrics): CpuPool {
  return new CpuPool({
    threads: threadsOf(settings),
    maxRequests: settings.cpu.max_requests,
    heapMb: settings.cpu.thread_heap_mb,
    taskCpuMs: TASK_CPU_MS,
    idleMs: IDLE_MS,
    clock,
    onTask: metrics.cpuTask,
    onRejected: metrics.cpuRejected,
  })
}
