/** Makes the HTTP server with all its routes. */
import { randomBytes } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { type Clock, wholeMs } from '../clock.ts'
import type { ModelSettings, Settings } from '../config/settings.ts'
import type { AdminRoutes } from '../http/admin/admin-parts.ts'
import { adminRoutes } from '../http/admin/admin-routes.ts'
import { createAuthentication } from '../http/authentication.ts'
import { batchRoutes } from '../http/batches.ts'
import { JobCreator } from '../http/create-jobs.ts'
import { dashboardRoutes } from '../http/dashboard.ts'
import { healthRoutes } from '../http/health.ts'
import { meRoute } from '../http/me.ts'
import { messageRoutes } from '../http/messages.ts'
import { documentRoutes } from '../http/openapi/documents.ts'
import { RateLimitWindows } from '../http/rate-limit-windows.ts'
import { limitReads } from '../http/rate-limits.ts'
import { type Answered, createServer } from '../http/server.ts'
import { jobIdMaker } from '../job/job-id.ts'
import type { Tiers } from '../job/tier.ts'
import { checkCallbackHeaders } from '../net/callback-headers.ts'
import { checkCallbackUrl } from '../net/ssrf-guard.ts'
import type { AdmissionRules } from '../queue/admission.ts'
import type { Enqueuer } from '../queue/enqueue.ts'
import { MonthlyCaps } from '../queue/monthly-caps.ts'
import type { PendingResponses } from '../queue/pending-responses.ts'
import type { Store } from '../store/store.ts'
import { errorFields, type Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import type { TokenCounter } from '../tokens/token-counter.ts'
import { VERSION } from '../version.ts'
import { addressRules } from './callbacks.ts'
import type { Role } from './role.ts'

export interface HttpParts {
  readonly settings: Settings
  readonly role: Role
  readonly store: Store
  readonly enqueuer: Enqueuer
  readonly pendingResponses: PendingResponses
  readonly tiers: Tiers
  readonly tokens: TokenCounter
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  readonly admin: AdminRoutes
  /** Rejects when a job could not be accepted now. */
  readonly ready: () => Promise<void>
  readonly isStopping: () => boolean
}

/** Resolves when the server could listen; it does not listen yet. */
export async function createHttp(parts: HttpParts): Promise<FastifyInstance> {
  const { settings, store, tiers, clock, log, metrics, isStopping } = parts
  const app = await createServer({
    authentication: createAuthentication(store, tiers, clock),
    corsOrigins: settings.cors.origins,
    trustProxy: settings.trust_proxy,
    jsonDepth: settings.limits.json_depth,
    headerTimeoutMs: wholeMs(settings.limits.header_timeout_seconds),
    requestTimeoutMs: wholeMs(settings.limits.request_timeout_seconds),
    isStopping,
    onAnswer: (answer) => {
      metrics.answered(answer)
      logAnswer(log, answer)
    },
    onError: (error, requestId) =>
      log.error({ request_id: requestId, ...errorFields(error) }, 'a request failed'),
  })
  await addRoutes(app, parts)
  await app.ready()
  return app
}

function logAnswer(
  log: Log,
  { requestId, method, route, status, ms, from, account, jobIds }: Answered,
): void {
  const tenths = Math.round(ms * 10) / 10
  const fields = { request_id: requestId, method, route, status, ms: tenths, from, account, job_ids: jobIds }
  if (status >= 500) log.warn(fields, 'answered')
  else log.info(fields, 'answered')
}

async function addRoutes(app: FastifyInstance, parts: HttpParts): Promise<void> {
  const { settings, store, enqueuer, pendingResponses, clock, metrics } = parts
  const { body_bytes: bodyBytes, batch_body_bytes: batchBodyBytes, idempotency_seconds } = settings.limits
  const retentionSeconds = settings.jobs.retention_seconds
  const retentionMs = wholeMs(retentionSeconds)
  // A key is not remembered for longer than its jobs.
  const rememberMs = Math.min(wholeMs(idempotency_seconds), retentionMs)
  const creation = new JobCreator(
    enqueuer,
    admissionRules(parts),
    new MonthlyCaps(store, clock),
    clock,
    rememberMs,
  )
  const windows = new RateLimitWindows(clock)
  await documentRoutes(app, VERSION)
  await limitReads(app, windows)
  if (parts.role !== 'worker') {
    messageRoutes(app, { creation, pendingResponses, store, clock, retentionMs, bodyBytes })
    batchRoutes(app, { creation, bodyBytes: batchBodyBytes })
    meRoute(app, {
      models: Object.keys(settings.models),
      windows,
      store,
      clock,
      retentionSeconds,
      bodyBytes,
      batchBodyBytes,
    })
  }
  await adminRoutes(app, parts.admin)
  dashboardRoutes(app)
  healthRoutes(app, {
    ready: parts.ready,
    metrics: () => metrics.text(),
  })
}

function admissionRules({ settings, clock, tokens }: HttpParts): AdmissionRules {
  const addresses = addressRules(settings)
  return {
    models: new Map(Object.entries(settings.models).map(([name, model]) => [name, sizeSteps(model)])),
    checkCallback: (url, headers) => {
      const checked = checkCallbackUrl(url, addresses)
      if (!checked.ok) return { field: 'callback_url', rule: checked.rule }
      const problem = checkCallbackHeaders(headers)
      if (problem) return { field: `callback_headers.${problem.header}`, rule: problem.rule }
      return { url: checked.url }
    },
    countTokens: (messages, enough) => tokens.count(messages, enough),
    makeId: jobIdMaker(
      () => clock.nowMs(),
      (bytes) => randomBytes(bytes).toString('hex'),
    ),
    nowMs: () => clock.nowMs(),
  }
}

/** The input sizes at which the choice of a model changes. */
function sizeSteps({ auto }: ModelSettings): number[] {
  return (auto ?? []).flatMap(({ up_to_tokens }) => up_to_tokens ?? [])
}
