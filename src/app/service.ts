/** Makes every part from the configuration, connects them, and starts and stops them in order. */
import { randomBytes } from 'node:crypto'
import { adminToken } from '../admin/token.ts'
import { type Clock, systemClock, wholeMs } from '../clock.ts'
import type { Configuration } from '../config/load.ts'
import type { Settings } from '../config/settings.ts'
import { tiersOf } from '../config/tiers.ts'
import { turnStep } from '../job/tier.ts'
import { Enqueuer, LINGER_MS } from '../queue/enqueue.ts'
import { PendingResponses } from '../queue/pending-responses.ts'
import { Retention } from '../queue/retention.ts'
import type { NodeEvents } from '../store/node-store.ts'
import { isPostgres, openStore, sqlitePath } from '../store/open.ts'
import type { Store } from '../store/store.ts'
import { diskOf } from '../telemetry/disk.ts'
import type { Gauges } from '../telemetry/gauges.ts'
import { errorFields, type Log } from '../telemetry/log.ts'
import { MetricSamples } from '../telemetry/metric-samples.ts'
import { Metrics } from '../telemetry/metrics.ts'
import { isTracing, tracedRouter, tracedStore } from '../telemetry/traces.ts'
import { TokenCounter } from '../tokens/token-counter.ts'
import { VERSION } from '../version.ts'
import { createAdmin } from './admin.ts'
import { createCourier } from './callbacks.ts'
import { createHttp } from './http.ts'
import { createCancellations, createElsewhere, createHeartbeat, NO_HANDS } from './node.ts'
import type { Role } from './role.ts'
import { createRouter } from './upstreams.ts'
import { createWorker } from './worker.ts'

/** On stopping, what connections have to end their request and read their answer once no job runs any more. */
const LAST_ANSWERS_MS = 2000

export interface ServiceOptions {
  readonly configuration: Configuration
  readonly log: Log
  readonly role?: Role
  readonly clock?: Clock
  /** How a job that already runs waits to be stored; null sends it at once, so that a test can count on it. */
  readonly linger?: ((act: () => void) => void) | null
  /** Storage has ended for good; the process had better end and be started again. */
  readonly onFatal: (error: Error) => void
}

export interface Service {
  readonly store: Store
  /** Where the admin token is kept; null where it was given, or none could be kept. */
  readonly adminTokenFile: string | null
  /** Begins to listen; resolves with the address, such as `http://127.0.0.1:8080`. */
  listen(): Promise<string>
  /**
   * Stops in order: waiting callers get their 202, running jobs end or are given back, connections close, the store
   * closes last. A second call waits for the same end.
   */
  stop(): Promise<void>
}

/** Rejects with what the operator must mend; nothing is left open then. */
export async function createService(options: ServiceOptions): Promise<Service> {
  const { configuration, clock = systemClock, log, onFatal } = options
  const { settings } = configuration
  const metrics = new Metrics()
  const node = randomBytes(8).toString('hex')
  const ear = new Ear()
  const store = await openStore(settings.database, {
    node,
    connections: settings.postgres.connections,
    prepare: settings.postgres.prepared_statements,
    statementMs: wholeMs(settings.postgres.statement_timeout_seconds),
    maxQueued: settings.limits.queued_writes,
    retentionMs: wholeMs(settings.jobs.retention_seconds),
    nowMs: () => clock.nowMs(),
    signals: ear,
    onCommit: (size, ms) => metrics.committed(size, ms),
    onNote: (message) => log.warn({}, message),
    onFatal,
  })
  try {
    const traced = isTracing() ? tracedStore(store) : store
    return await connect({ ...options, clock, metrics, node, ear, store: traced })
  } catch (error) {
    await store.close()
    throw error
  }
}

/** Hears other nodes from the moment the store is open; who cares is known a little later. */
class Ear implements NodeEvents {
  jobsWaiting: () => void = () => {}
  settled: (jobIds: readonly string[]) => void = () => {}
}

interface OpenedParts extends ServiceOptions {
  readonly clock: Clock
  readonly metrics: Metrics
  readonly node: string
  readonly ear: Ear
  readonly store: Store
}

async function connect(parts: OpenedParts): Promise<Service> {
  const { configuration, role = 'all', log, clock, metrics, node, ear, store, linger = lingerBriefly } = parts
  const { settings } = configuration
  const models = createRouter(configuration, clock, (call) => metrics.called(call))
  const router = isTracing() ? tracedRouter(models) : models
  const waiters = new PendingResponses(clock, settings.sync.max_waiters)
  const tiers = tiersOf(settings)
  const tokens = new TokenCounter()
  const courier = createCourier({ settings, store, node, clock, log, metrics })
  const worker = createWorker({ store, router, node, clock, settings, waiters, courier, log, metrics })
  const heartbeat = createHeartbeat({ store, node, clock, settings, worker, waiters, log, metrics })
  const elsewhere = createElsewhere({ store, node, clock, settings, worker, waiters, log })
  const cancellations = createCancellations({ store, node, clock, settings, worker, waiters, log }, elsewhere)
  const stepOf = (tier: string) => turnStep(tiers.of(tier))
  const hands = role === 'api' ? NO_HANDS : worker
  const acceptor = new Enqueuer({ store, hands, node, clock, stepOf, linger })
  let stopping = false
  const isStopping = () => stopping
  const ready = async () => {
    if (stopping) throw new Error('the server is stopping')
    await store.ping()
  }
  const file = databaseFile(settings)
  const gauges: Gauges = {
    ready,
    depth: () => store.depth(),
    callbackDepth: () => store.callbackDepth(),
    callbacksUnderWay: () => courier.underWay,
    running: () => worker.running,
    waiters: () => waiters.count,
    upstreams: () => models.state(),
    disk: async () => (file === null ? null : diskOf(file)),
    places: { jobs: settings.jobs.concurrency, waiters: settings.sync.max_waiters },
    about: { version: VERSION, role, store: file === null ? 'postgres' : 'sqlite' },
    clock,
  }
  const points = new MetricSamples({
    metrics,
    gauges,
    clock,
    onError: (error) => log.error(errorFields(error), 'taking a metric sample failed'),
  })
  const { token, file: adminTokenFile, note } = adminToken(configuration.adminToken, file)
  if (note !== null) log.warn({}, note)
  const about = { configuration, token, node, role, store, clock, gauges, points, cancellations, log }
  const http = {
    settings,
    role,
    store,
    acceptor,
    waiters,
    tiers,
    tokens,
    clock,
    log,
    metrics,
    ready,
    isStopping,
  }
  const app = await createHttp({ ...http, admin: createAdmin(about) })
  const sweeper = new Retention(store, clock, wholeMs(settings.jobs.retention_seconds), (error) =>
    log.warn(errorFields(error), 'deleting what has expired failed; it is tried again'),
  )
  metrics.watch(gauges)
  points.begin()
  if (role !== 'api') {
    await heartbeat.begin()
    ear.jobsWaiting = () => worker.wake()
    worker.wake()
    courier.begin()
  }
  if (role !== 'worker') {
    ear.settled = (jobIds) => void elsewhere.settled(jobIds)
    elsewhere.begin()
  }
  cancellations.begin()
  sweeper.begin()
  log.info({ node, role }, 'serving')

  const stopAll = async (): Promise<void> => {
    stopping = true
    sweeper.stop()
    elsewhere.stop()
    cancellations.stop()
    waiters.stop()
    points.stop()
    const closed = app.close()
    await worker.drain(wholeMs(settings.jobs.drain_seconds))
    // Closing ends the time-outs of requests too, so a client that never ends its own would keep the server for ever.
    const cancel = clock.after(LAST_ANSWERS_MS, () => app.server.closeAllConnections())
    await Promise.all([closed, courier.stop()])
    cancel()
    // The last, because what a node without a lease has in hand is anybody's.
    await heartbeat.stop()
    await Promise.all([router.close(), tokens.close()])
    await store.close()
  }
  let stopped: Promise<void> | null = null
  return {
    store,
    adminTokenFile,
    listen: () => app.listen({ host: settings.host, port: settings.port }),
    stop: () => {
      stopped ??= stopAll()
      return stopped
    },
  }
}

/** Real time, whatever the clock says: it is about the pace of the machine. */
function lingerBriefly(act: () => void): void {
  setTimeout(act, LINGER_MS)
}

/** Null where it is no file. */
function databaseFile({ database }: Settings): string | null {
  return isPostgres(database) ? null : sqlitePath(database)
}
