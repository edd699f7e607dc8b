/** Creates the worker: connects execution, settlement and the steps after it. */
import type { CallbackDispatcher } from '../callbacks/dispatcher.ts'
import { type Clock, wholeMs } from '../clock.ts'
import type { Settings } from '../config/settings.ts'
import { createAfterSettlement } from '../queue/after-settlement.ts'
import type { ContextShifts } from '../queue/context-shift.ts'
import { createExecuteJob } from '../queue/execute.ts'
import type { PendingResponses } from '../queue/pending-responses.ts'
import type { AnswerReader } from '../queue/read-answer.ts'
import { Worker } from '../queue/worker.ts'
import type { WriteDelay } from '../queue/write-delay.ts'
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
  /** As in `EngineParts`. */
  readonly simulated?: boolean
  readonly pendingResponses: PendingResponses
  readonly dispatcher: CallbackDispatcher
  readonly bytes: ByteBudget
  readonly log: Log
  readonly metrics: Metrics
  readonly writeDelay: WriteDelay | null
}

export function createWorker(parts: WorkerParts): Worker {
  const { store, router, answers, node, clock, settings, log, metrics } = parts
  const execute = createExecuteJob({
    store,
    router,
    answers,
    contextShifts: parts.contextShifts,
    clock,
    cache: { enabled: settings.cache.enabled, simulated: parts.simulated ?? false },
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
    afterSettlement: createAfterSettlement(parts),
    metrics,
    delay: parts.writeDelay,
    onError: (message, error) => log.error(errorFields(error), message),
  })
}
