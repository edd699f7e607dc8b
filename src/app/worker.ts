/** Creates the worker: connects execution, settlement and the steps after it. */
import { type Clock, wholeMs } from '../clock.ts'
import type { Settings } from '../config/settings.ts'
import type { AfterSettlement } from '../queue/after-settlement.ts'
import type { ContextShifts } from '../queue/context-shift.ts'
import { createExecuteJob } from '../queue/execute.ts'
import type { AnswerReader } from '../queue/read-answer.ts'
import type { CacheKeyOf } from '../queue/response-cache.ts'
import { Worker } from '../queue/worker.ts'
import type { ByteBudget } from '../sharing/byte-budget.ts'
import type { Store } from '../store/store.ts'
import { errorFields, type Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { isTracing, tracedExecution } from '../telemetry/traces.ts'
import type { Router } from '../upstreams/model-server.ts'
import type { Routes } from '../upstreams/routes.ts'

export interface WorkerParts {
  readonly store: Store
  readonly router: Router
  readonly routes: Routes
  readonly answers: AnswerReader
  readonly contextShifts: ContextShifts
  readonly node: string
  readonly clock: Clock
  readonly settings: Settings
  readonly cacheKeyOf: CacheKeyOf
  readonly afterSettlement: AfterSettlement
  readonly bytes: ByteBudget
  readonly log: Log
  readonly metrics: Metrics
}

export function createWorker(parts: WorkerParts): Worker {
  const { store, router, answers, node, clock, settings, log, metrics } = parts
  const execute = createExecuteJob({
    store,
    router,
    answers,
    contextShifts: parts.contextShifts,
    clock,
    cacheKeyOf: parts.cacheKeyOf,
    maxAttempts: settings.jobs.max_attempts,
    patienceMs: wholeMs(settings.jobs.patience_seconds),
  })
  return new Worker({
    store,
    node,
    clock,
    concurrency: settings.jobs.concurrency,
    bytes: parts.bytes.jobs,
    runTimeoutMs: wholeMs(settings.jobs.run_timeout_seconds),
    routes: parts.routes,
    patienceMs: wholeMs(settings.jobs.patience_seconds),
    maxAttempts: settings.jobs.max_attempts,
    execute: isTracing() ? tracedExecution(execute) : execute,
    afterSettlement: parts.afterSettlement,
    metrics,
    onError: (message, error) => log.error(errorFields(error), message),
  })
}
