/** Composes what the admin API depends on: the node, its parts and its settings. */
import { randomBytes } from 'node:crypto'
import { AuditLog } from '../admin/audit-log.ts'
import { type Clock, wholeMs } from '../clock.ts'
import type { Configuration } from '../config/load.ts'
import { maskedDatabase, maskedSettings } from '../config/masked.ts'
import type { AdminOptions } from '../http/admin/admin-context.ts'
import { jobIdMaker } from '../job/job-id.ts'
import type { Cancellation } from '../queue/cancellation.ts'
import type { Store } from '../store/store.ts'
import type { Gauges } from '../telemetry/gauges.ts'
import type { Log } from '../telemetry/log.ts'
import type { MetricSamples } from '../telemetry/metric-samples.ts'
import { overviewOf } from '../telemetry/overview.ts'
import type { Routes } from '../upstreams/routes.ts'
import { VERSION } from '../version.ts'
import type { Role } from './role.ts'

export interface AdminApiParts {
  readonly configuration: Configuration
  readonly token: string | null
  readonly node: string
  readonly role: Role
  readonly store: Store
  readonly routes: Pick<Routes, 'limited'>
  readonly clock: Clock
  readonly gauges: Gauges
  readonly samples: MetricSamples
  readonly cancellation: Cancellation
  readonly log: Log
}

export function createAdmin(parts: AdminApiParts): AdminOptions {
  const { configuration, token, node, role, store, clock, gauges, samples, cancellation, log } = parts
  const { settings, simulated } = configuration
  const about = { version: VERSION, node, role, simulated, started_at: clock.nowMs() / 1000 }
  return {
    token,
    store,
    clock,
    samples,
    auditLog: new AuditLog(
      store,
      clock,
      jobIdMaker(clock, (bytes) => randomBytes(bytes).toString('hex')),
    ),
    onCancelled: (jobId) =>
      jobId === undefined ? cancellation.apply() : cancellation.cancelled(jobId, 'operator'),
    expiry: () => ({ nowMs: clock.nowMs(), retentionMs: wholeMs(settings.jobs.retention_seconds) }),
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
