/** Creates the HTTP server with all its routes, and what the routes for operators depend on. */
import { randomBytes } from 'node:crypto'
import type { Server } from 'node:http'
import type { FastifyInstance } from 'fastify'
import { AuditLog } from '../admin/audit-log.ts'
import { type Clock, wholeMs } from '../clock.ts'
import { idempotencySeconds } from '../config/conversions.ts'
import type { Configuration } from '../config/load.ts'
import { maskedDatabase, maskedSettings } from '../config/masked.ts'
import type { Settings } from '../config/settings.ts'
import type { CpuPool } from '../cpu-pool/cpu-pool.ts'
import { Files } from '../files/files.ts'
import type { AdminOptions } from '../http/admin/admin-context.ts'
import { adminRoutes } from '../http/admin/admin-routes.ts'
import { createAuthentication } from '../http/authentication.ts'
import { CreateRequests } from '../http/create-jobs.ts'
import { dashboardRoutes } from '../http/dashboard.ts'
import { healthRoutes } from '../http/health.ts'
import { LargeAnswers } from '../http/large-answers.ts'
import { listJobsRoute } from '../http/list-jobs.ts'
import { ConnectionLimits, StalledWrites } from '../http/load-shedding/connection-limits.ts'
import { RequestCpu } from '../http/load-shedding/request-cpu.ts'
import { meRoute } from '../http/me.ts'
import { batchRoutes, messageRoutes } from '../http/messages.ts'
import { openapiRoutes } from '../http/openapi/routes.ts'
import { heldInputCounter, OwnJobActions, ownJobActionRoutes } from '../http/own-job-actions.ts'
import { PipelinedRequests } from '../http/pipelined-requests.ts'
import { createReadMany, JobAwaiter, JobReader, readJobRoute } from '../http/read-jobs.ts'
import { limitReads } from '../http/read-rate-limit.ts'
import { RejectionPacing } from '../http/rejection-pacing.ts'
import { RequestBodies } from '../http/request-bodies.ts'
import { createServer } from '../http/server.ts'
import { UnreadBodies } from '../http/unread-bodies.ts'
import type { PartLimits } from '../job/create-body.ts'
import { jobIdMaker } from '../job/job-id.ts'
import type { Tiers } from '../job/tier.ts'
import type { Cancellation } from '../queue/cancellation.ts'
import { HeldRequests } from '../queue/held-requests.ts'
import type { JobCreator } from '../queue/job-creator.ts'
import type { PendingResponses } from '../queue/pending-responses.ts'
import { Quotas } from '../queue/quotas.ts'
import type { Reruns } from '../queue/reruns.ts'
import type { Worker } from '../queue/worker.ts'
import type { ByteBudget } from '../sharing/byte-budget.ts'
import { MinuteCounter } from '../sharing/minute-counter.ts'
import type { Expiry } from '../store/expiry.ts'
import { StoreUnavailable } from '../store/store.ts'
import type { Gauges } from '../telemetry/gauges.ts'
import { errorFields, type Log } from '../telemetry/log.ts'
import { type MetricSamples, overviewOf } from '../telemetry/metric-samples.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { isTracing, traceCreates } from '../telemetry/traces.ts'
import type { Routes } from '../upstreams/routes.ts'
import { V1_ERRORS } from '../v1/errors.ts'
import { HeldCreates } from '../v1/held-creates.ts'
import { V1_WEBHOOKS } from '../v1/job-openapi.ts'
import { V1_DOCUMENT } from '../v1/openapi.ts'
import { v1Routes } from '../v1/routes.ts'
import { Uploads } from '../v1/upload.ts'
import { VERSION } from '../version.ts'
import type { EngineParts } from './engine-parts.ts'

export interface HttpParts
  extends Pick<EngineParts, 'settings' | 'role' | 'node' | 'store' | 'clock' | 'log' | 'metrics' | 'prices'> {
  readonly simulated: boolean
  readonly creator: JobCreator
  readonly pendingResponses: PendingResponses
  readonly worker: Pick<Worker, 'isRunning'>
  readonly cancellation: Pick<Cancellation, 'cancelled'>
  readonly tiers: Tiers
  readonly pool: CpuPool
  readonly bytes: ByteBudget
  readonly connections: ConnectionLimits
  readonly admin: AdminOptions
  /** Wakes this node, which then continues batches that were created or cancelled. */
  readonly onBatchChanged: () => void
  /** Rejects while the server cannot accept jobs. */
  readonly ready: () => Promise<void>
  readonly queuedRoutes: Gauges['routes']
  /** Aborts when the listener closes, at the latest together with `stopping`. */
  readonly closing: AbortSignal
  readonly stopping: AbortSignal
}

export async function createHttp(parts: HttpParts): Promise<FastifyInstance> {
  const { settings, store, tiers, clock, bytes, log, metrics, stopping } = parts
  const answers = new LargeAnswers({ share: bytes.answers, clock, onRejected: metrics.memoryRejected })
  const bodies = new RequestBodies({ budget: bytes, clock, onRejected: metrics.memoryRejected })
  const cpu = new RequestCpu(parts.pool, clock)
  const requestTimeoutMs = wholeMs(settings.limits.request_timeout_seconds)
  const files = createFiles(parts)
  const retentionMs = wholeMs(settings.v1.file_retention_seconds)
  const uploads = new Uploads({ files, bodies, clock, retentionMs })
  const app = createServer({
    authentication: createAuthentication({
      store,
      tiers,
      clock,
      maxUnknownKeys: settings.limits.unknown_keys_per_minute,
      onRejected: metrics.unknownKeyRejected,
      onError: (error) => log.warn(errorFields(error), 'could not store when keys were last used; retrying'),
    }),
    simulated: parts.simulated,
    otherApi: V1_ERRORS,
    corsOrigins: settings.cors.origins,
    trustProxy: settings.trust_proxy,
    largeBodies: { cpu, maxDepth: settings.limits.json_depth, limits: partLimits(settings) },
    headerTimeoutMs: wholeMs(settings.limits.header_timeout_seconds),
    requestTimeoutMs,
    bodies,
    answers,
    rejections: new RejectionPacing({
      perSecond: settings.limits.rejections_per_second,
      clock,
      stopping,
      onDelayed: metrics.rejectionDelayed,
    }),
    isUploading: uploads.isUploading,
    unread: new UnreadBodies(clock, stopping),
    pipelined: new PipelinedRequests({
      share: bytes.requests,
      clock,
      requestTimeoutMs,
      onRejected: metrics.memoryRejected,
    }),
    guard: connectionGuard(parts),
    closing: parts.closing,
    stopping,
    metrics,
    log,
    onError: (error, requestId) => {
      if (error instanceof StoreUnavailable) metrics.databaseRejected()
      log.error({ request_id: requestId, ...errorFields(error) }, 'a request failed')
    },
  })
  if (isTracing()) traceCreates(app)
  await addRoutes(app, { ...parts, answers, bodies, cpu, files, uploads })
  await app.ready()
  return app
}

interface RouteParts extends HttpParts {
  readonly bodies: RequestBodies
  readonly answers: LargeAnswers
  readonly cpu: RequestCpu
  readonly files: Files
  readonly uploads: Uploads
}

async function addRoutes(app: FastifyInstance, parts: RouteParts): Promise<void> {
  const { settings, store, prices, pendingResponses, clock, log, metrics, bodies, answers } = parts
  const { body_bytes: bodyBytes, batch_body_bytes: batchBodyBytes } = settings.limits
  const retentionSeconds = settings.jobs.retention_seconds
  const requests = new CreateRequests({ creator: parts.creator, cpu: parts.cpu, clock })
  const limits = partLimits(settings)
  const readCounter = new MinuteCounter(clock)
  openapiRoutes(app, VERSION, { ...V1_DOCUMENT, webhooks: V1_WEBHOOKS })
  limitReads(app, readCounter)
  if (parts.role !== 'worker') {
    const reader = new JobReader({
      store,
      clock,
      retentionMs: wholeMs(retentionSeconds),
      answers,
      budgetsWait: Object.values(settings.tiers).some(({ over_cap }) => over_cap === 'wait'),
    })
    const awaiter = new JobAwaiter({
      pendingResponses,
      store,
      isRunning: (jobId) => parts.worker.isRunning(jobId),
    })
    messageRoutes(app, { requests, reader, bodyBytes, bodies, answers, limits })
    readJobRoute(app, { reader, awaiter })
    listJobsRoute(app, { store, reader, readMany: createReadMany(reader, awaiter) })
    const actions = new OwnJobActions({
      store,
      reader,
      countInput: heldInputCounter(store, parts.cpu),
      ...(prices && { inputPrices: () => prices()?.ofInput }),
      clock,
      limits: { cancel: settings.limits.cancels_per_minute, delete: settings.limits.deletes_per_minute },
      onCancelled: (jobId) => parts.cancellation.cancelled(jobId),
      onAction: ({ action, jobId, account, keyId, requestId }) => {
        metrics.callerActed(action)
        log.info({ action, job_id: jobId, account, key_id: keyId, request_id: requestId }, 'caller')
      },
    })
    ownJobActionRoutes(app, actions)
    v1Routes(app, {
      creates: new HeldCreates({
        requests,
        reader,
        bodies,
        answers,
        limits,
        held: createHeldRequests(parts),
        usesCache: (model) => settings.models[model]?.v1_cache === true,
      }),
      answers,
      store,
      reader,
      actions,
      bodyBytes,
      models: Object.keys(settings.models),
      startedAt: Math.floor(clock.nowMs() / 1000),
      files: parts.files,
      uploads: parts.uploads,
      clock,
      makeBatchId: idMaker(clock),
      onBatchChanged: parts.onBatchChanged,
    })
    batchRoutes(app, { requests, bodyBytes: batchBodyBytes, limits })
    meRoute(app, {
      models: Object.keys(settings.models),
      readCounter,
      store,
      clock,
      retentionSeconds,
      idempotencySeconds: idempotencySeconds(settings),
      bodyBytes,
      batchBodyBytes,
      currency: settings.currency ?? null,
    })
  }
  await adminRoutes(app, parts.admin)
  dashboardRoutes(app)
  healthRoutes(app, {
    ready: parts.ready,
    metrics: () => metrics.text(),
    routes: parts.queuedRoutes,
    clock: parts.clock,
  })
}

function createFiles({ store, clock }: HttpParts): Files {
  return new Files({ store, quotas: new Quotas({ store, clock }), clock, makeId: idMaker(clock) })
}

const idMaker = (clock: Clock) => jobIdMaker(clock, (bytes) => randomBytes(bytes).toString('hex'))

function createHeldRequests({ settings, role, node, store, clock, log }: HttpParts): HeldRequests {
  return new HeldRequests({
    store,
    node: role === 'api' ? null : node,
    clock,
    rejoinMs: wholeMs(settings.v1.rejoin_seconds),
    onError: (error) => log.warn(errorFields(error), 'could not store which requests of /v1 wait'),
  })
}

export function createConnectionLimits(
  { limits, trust_proxy: trustProxy }: Settings,
  metrics: Metrics,
  log: Log,
): ConnectionLimits {
  return new ConnectionLimits({
    total: limits.connections,
    perAddress: limits.connections_per_address,
    trustProxy,
    onRejected: (limit, address) => {
      metrics.connectionRejected(limit)
      log.debug({ limit: `limits.${limit}`, from: address }, 'rejected a connection')
    },
  })
}

/** Limits the number of connections, and closes those whose clients do not read their responses. */
function connectionGuard({ settings, clock, log, metrics, connections }: HttpParts) {
  const limitMs = wholeMs(settings.limits.stalled_write_seconds)
  const stalled = new StalledWrites({
    clock,
    limitMs,
    onClosed: (from) => {
      metrics.connectionStalled()
      log.info({ from }, 'closed a connection because its client did not read (limits.stalled_write_seconds)')
    },
  })
  return (server: Server) => {
    stalled.watch(server)
    connections.guard(server)
  }
}

export function partLimits({ limits }: Settings): PartLimits {
  return { payloadBytes: limits.callback_payload_bytes, schemaBytes: limits.schema_bytes }
}

interface AdminApiParts extends Pick<EngineParts, 'node' | 'role' | 'store' | 'clock' | 'log'> {
  readonly configuration: Configuration
  readonly token: string | null
  readonly routes: Pick<Routes, 'limited'>
  readonly gauges: Gauges
  readonly samples: MetricSamples
  readonly cancellation: Cancellation
  readonly reruns: Pick<Reruns, 'makeAll'>
  readonly expiry: () => Expiry
}

export function createAdmin(parts: AdminApiParts): AdminOptions {
  const { configuration, token, node, role, store, clock, gauges, samples, cancellation, expiry, log } = parts
  const { settings, simulated } = configuration
  const about = { version: VERSION, node, role, simulated, started_at: clock.nowMs() / 1000 }
  return {
    token,
    store,
    currency: settings.currency,
    clock,
    samples,
    auditLog: new AuditLog(store, clock, idMaker(clock)),
    onCancelled: (jobId) => (jobId === undefined ? cancellation.apply() : cancellation.cancelled(jobId)),
    makeReruns: () => parts.reruns.makeAll(),
    expiry,
    tiers: () => Object.keys(settings.tiers),
    overview: async () => {
      const [depth, callbacks] = await Promise.all([gauges.depth(), gauges.callbackDepth()])
      return overviewOf({ about, gauges, depth, callbacks, nowMs: clock.nowMs() })
    },
    waitingRoute: (route) => parts.routes.limited.get(route),
    settingsJson: JSON.stringify({
      settings: maskedSettings(settings),
      file: configuration.file,
      database: maskedDatabase(settings.database),
    }),
    onSlowClient: (requestId) =>
      log.info({ request_id: requestId }, 'closed an event stream because its client did not read it'),
    onAction: ({ what, details, requestId, from, operator }) =>
      log.info(
        { what, ...details, request_id: requestId, from, ...(operator !== null && { operator }) },
        'admin',
      ),
  }
}
