/** Opens the database and creates the server, whose modules are loaded meanwhile, because both take long. */
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { systemClock, wholeMs } from '../clock.ts'
import { DEFAULT_DATABASE } from '../config/allowed-values.ts'
import { isPostgres, openStore, sqlitePath } from '../store/open.ts'
import { Metrics } from '../telemetry/metrics.ts'
import { isTracing, tracedStore } from '../telemetry/traces.ts'
import type { Service, ServiceOptions } from './service.ts'

/** Rejects with the problem that the operator must fix. The database is then closed. */
export async function createService(options: ServiceOptions): Promise<Service> {
  const { configuration, clock = systemClock, log, onFatal } = options
  const { settings } = configuration
  const metrics = new Metrics(Object.keys(settings.models))
  options.otlp?.watch(metrics)
  const node = randomBytes(8).toString('hex')
  const file = isPostgres(settings.database) ? null : sqlitePath(settings.database)
  const newFolder = file === null ? null : missingFolder(file)
  const opening = openStore(settings.database, {
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
  const [store, { connect }] = await Promise.all([opening, import('./service.ts')])
  if (newFolder !== null) {
    log.warn(
      { folder: newFolder },
      'created the folder of the database, which is new; if you expected one with data, check DATABASE_URL',
    )
  }
  try {
    const traced = isTracing() ? tracedStore(store) : store
    return await connect({ ...options, clock, metrics, node, store: traced, file })
  } catch (error) {
    await store.close()
    throw error
  }
}

/** Returns the full path of the folder that the database file needs; null for an existing folder or the default one. */
function missingFolder(file: string): string | null {
  const folder = dirname(resolve(file))
  const isDefault = folder === dirname(resolve(sqlitePath(DEFAULT_DATABASE)))
  return isDefault || existsSync(folder) ? null : folder
}
