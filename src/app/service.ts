/** Makes every part from the configuration, connects them, and starts and stops them in order. */
import { randomBytes } from 'node:crypto'
import { adminToken } from '../admin/token.ts'
import { type Clock, systemClock, wholeMs } from '../clock.ts'
import type { Configuration } from '../config/load.ts'
import type { Settings } from '../config/settings.ts'
import { tiersOf } from '../config/tiers.ts'
import { Listeners } from '../http/listeners.ts'
import { Tiers, turnStep } from '../job/tier.ts'
import { Enqueuer } from '../queue/enqueue.ts'
import { PendingResponses } from '../queue/pending-responses.ts'
import { AnswerReader } from '../queue/read-answer.ts'
import { retentionLoop } from '../queue/retention.ts'
import { isPostgres, openStore, sqlitePath } from '../store/open.ts'
import type { Store } from '../store/store.ts'
import { diskOf } from '../telemetry/disk.ts'
import type { Gauges } from '../telemetry/gauges.ts'
import { errorFields, type Log } from '../telemetry/log.ts'
import { MetricSamples } from '../telemetry/metric-samples.ts'
import { Metrics } from '../telemetry/metrics.ts'
import { isTracing, tracedRouter, tracedStore } from '../telemetry/traces.ts'
import type { ReadLarge } from '../upstreams/openai-client.ts'
import { VERSION } from '../version.ts'
import { createAdmin } from './admin.ts'
import { createByteBudget } from './byte-budget.ts'
import { createDispatcher } from './callbacks.ts'
import { createContextShifts } from './context-shifts.ts'
import { createCpuPool, threadsOf } from './cpu-pool.ts'
import { createConnectionLimits, createHttp } from './http.ts'
import { createCancellation, createNodeLease, createRemoteResults } from './node.ts'
import type { Role } from './role.ts'
import { createRouter } from './upstreams.ts'
import { createWorker } from './worker.ts'

/** After the last job of a stopping server, how long clients have to end their request and read the answer. */
const LAST_ANSWERS_MS = 2000

export interface ServiceOptions {
  readonly configuration: Configuration
  readonly log: Log
  readonly role?: Role
  readonly clock?: Clock
  /** Delays the early write of a job (`queue/held-job.ts`); null sends it at once, so that a test can rely on it. */
  readonly earlyWriteDelay?: ((callback: () => void) => void) | null
  /** The storage thread or the heartbeat thread has ended: end the process and start it again. */
  readonly onFatal: (error: Error) => void
}

export interface Service {
  readonly store: Store
  /** Where the admin token is stored; null when it was configured, or could not be stored. */
  readonly adminTokenFile: string | null
  /** Starts to listen; resolves with the address, such as `http://127.0.0.1:8080`. */
  listen(): Promise<string>
  /**
   * Stops in order: pending responses get their 202, executions end or their jobs are released, connections close, and the
   * store closes last. A second call waits for the same end.
   */
  stop(): Promise<void>
}

/** Rejects with what the operator must repair; nothing is left open then. */
export async function createService(options: ServiceOptions): Promise<Service> {
  const { configuration, clock = systemClock, log, onFatal } = options
  const { settings } = configuration
  const metrics = new Metrics()
  const node = randomBytes(8).toString('hex')
  const store = await openStore(settings.database, {
    node,
    connections: settings.postgres.connections,
    prepare: settings.postgres.prepared_statements,
    statementMs: wholeMs(settings.postgres.statement_timeout_seconds),
    maxQueued: settings.limits.queued_writes,
    retentionMs: wholeMs(settings.jobs.retention_seconds),
    nowMs: () => clock.nowMs(),
    onCommit: metrics.committed,
    onNote: (message) => log.warn({}, message),
    onFatal,
  })
  try {
    const traced = isTracing() ? tracedStore(store) : store
    return await connect({ ...options, clock, metrics, node, store: traced })
  } catch (error) {
    await store.close()
    throw error
  }
}

interface OpenedParts extends ServiceOptions {
  readonly clock: Clock
  readonly metrics: Metrics
  readonly node: string
  readonly store: Store
}

async function connect(parts: OpenedParts): Promise<Service> {
  const { configuration, role = 'all', log, clock, metrics, node, store, onFatal } = parts
  const { settings } = configuration
  const tiers = new Tiers(tiersOf(settings))
  const pool = createCpuPool(settings, clock, metrics)
  // The weights of accounts count where they wait for each other's jobs; of an upstream's answers, two are read at once.
  const readLarge: ReadLarge = (completion, account, signal) =>
    pool.run('read completion', completion, { account, weight: 1 }, signal)
  const upstreams = createRouter(configuration, clock, metrics.called, readLarge, log)
  const router = isTracing() ? tracedRouter(upstreams) : upstreams
  const pendingResponses = new PendingResponses(clock, settings.sync.max_waiters)
  const bytes = createByteBudget(settings)
  const dispatcher = createDispatcher({ settings, store, node, clock, log, metrics, bytes: bytes.callbacks })
  const common = { settings, store, node, clock, log, metrics, pendingResponses, bytes, onFatal }
  const weightOf = (tier: string) => tiers.of(tier).weight
  const answers = new AnswerReader({ pool, maxDepth: settings.limits.json_depth, weightOf })
  const contextShifts = createContextShifts({ pool, clock, weightOf, metrics, log })
  const worker = createWorker({ ...common, router, routes: upstreams, answers, contextShifts, dispatcher })
  const lease = createNodeLease({ ...common, worker })
  const remoteResults = createRemoteResults({ ...common, worker })
  const cancellation = createCancellation({ ...common, worker }, remoteResults)
  const enqueuer = new Enqueuer({
    store,
    worker: role === 'api' ? null : worker,
    node,
    clock,
    stepOf: (tier) => turnStep(tiers.of(tier)),
    routeOf: (job) => upstreams.routeOf(job),
    ...(parts.earlyWriteDelay !== undefined && { delay: parts.earlyWriteDelay }),
  })
  const stopping = new AbortController()
  const ready = async () => {
    if (stopping.signal.aborted) throw new Error('the server is stopping')
    await store.ping()
  }
  const connections = createConnectionLimits(settings, metrics, log)
  const file = databaseFile(settings)
  const gauges: Gauges = {
    ready,
    depth: () => store.depth(),
    callbackDepth: () => store.callbackDepth(),
    callbacksInProgress: () => dispatcher.inFlight,
    running: () => worker.running,
    heldBack: () => worker.heldBack(),
    pendingResponses: () => pendingResponses.count,
    memory: () => bytes,
    connections: () => connections.open,
    upstreams: () => upstreams.state(),
    cpu: () => pool.state,
    disk: async () => (file === null ? null : diskOf(file)),
    slots: {
      jobs: settings.jobs.concurrency,
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
    onError: (error) => log.error(errorFields(error), 'taking a metric sample failed'),
  })
  const { token, file: adminTokenFile, note } = adminToken(configuration.adminToken, file)
  if (note !== null) log.warn({}, note)
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
    log,
  })
  const app = await createHttp({
    ...common,
    role,
    connections,
    enqueuer,
    tiers,
    pool,
    ready,
    stopping: stopping.signal,
    admin,
  })
  const listeners = new Listeners(app)
  const retention = retentionLoop({
    store,
    clock,
    retentionMs: wholeMs(settings.jobs.retention_seconds),
    onError: (error) => log.warn(errorFields(error), 'deleting expired jobs failed; it is retried'),
  })
  metrics.watch(gauges)
  samples.begin()
  const executes = role !== 'api'
  if (executes) await lease.start()
  store.subscribe({
    jobsWaiting: () => {
      if (executes) worker.wake()
    },
    settled: (jobIds) => void remoteResults.settled(jobIds),
  })
  if (executes) {
    worker.wake()
    dispatcher.start()
  }
  if (role !== 'worker') remoteResults.start()
  cancellation.start()
  retention.start()
  log.info({ node, role }, 'serving')

  const stopAll = async (): Promise<void> => {
    stopping.abort()
    const polls = [retention.stop(), remoteResults.stop(), cancellation.stop()]
    pendingResponses.stop()
    samples.stop()
    const closed = listeners.close()
    await worker.drain(wholeMs(settings.jobs.drain_seconds))
    // Closing also ends the timeouts of requests, so a client that never ends its own would keep the server running forever.
    const cancel = clock.after(LAST_ANSWERS_MS, () => app.server.closeAllConnections())
    await Promise.all([closed, dispatcher.stop(), ...polls])
    cancel()
    // Last, because other nodes rescue what a node without a lease holds.
    await lease.stop()
    await Promise.all([router.close(), pool.close()])
    await store.close()
  }
  let stopped: Promise<void> | null = null
  return {
    store,
    adminTokenFile,
    listen: () => listeners.listen({ host: settings.host, port: settings.port }),
    stop: () => {
      stopped ??= stopAll()
      return stopped
    },
  }
}

/** Null when the database is not a file. */
function databaseFile({ database }: Settings): string | null {
  return isPostgres(database) ? null : sqlitePath(database)
}
