/** Makes what drives jobs on this node, and tells waiters, metrics and the log what becomes of them. */

import type { CallbackDispatcher } from '../callbacks/dispatcher.ts'
import { type Clock, wholeMs } from '../clock.ts'
import type { Settings } from '../config/settings.ts'
import type { ClaimedJob, Job } from '../job/job.ts'
import type { JobRecord } from '../job/job-record.ts'
import type { StopSignal } from '../job/stop.ts'
import { type ExecutionResult, executeJob } from '../queue/execute.ts'
import type { PendingResponses } from '../queue/pending-responses.ts'
import { Worker } from '../queue/worker.ts'
import type { Store } from '../store/store.ts'
import { errorFields, type Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { isTracing, tracedRun } from '../telemetry/traces.ts'
import type { Router } from '../upstreams/model-server.ts'

export interface JobParts {
  readonly store: Store
  readonly router: Router
  readonly node: string
  readonly clock: Clock
  readonly settings: Settings
  readonly waiters: PendingResponses
  readonly courier: CallbackDispatcher
  readonly log: Log
  readonly metrics: Metrics
}

export function createWorker(parts: JobParts): Worker {
  const { store, router, node, clock, settings, waiters, courier, log, metrics } = parts
  const options = {
    store,
    router,
    clock,
    cacheEnabled: settings.cache.enabled,
    maxAttempts: settings.jobs.max_attempts,
  }
  const run = (job: ClaimedJob, signal: StopSignal) => executeJob(job, options, signal)
  return new Worker({
    store,
    node,
    clock,
    concurrency: settings.jobs.concurrency,
    runTimeoutMs: wholeMs(settings.jobs.run_timeout_seconds),
    suspectDeaths: Math.max(1, settings.jobs.max_attempts - 1),
    run: isTracing() ? tracedRun(run) : run,
    events: {
      started: (job) => metrics.started(job, clock.nowMs()),
      settled: (job, result, settled, runMs) => {
        if (settled === 'gone') waiters.vanished(job.id)
        if (settled !== 'settled') return
        waiters.settled(viewOf(job, result), result.usage.cache_hit)
        if (job.callback) courier.wake(job.account, job.id)
        metrics.settled(job, result, runMs)
        logSettled(log, job, result, runMs)
      },
      trouble: (message, error) => log.error(errorFields(error), message),
    },
  })
}

function viewOf(job: Job, { outcome }: ExecutionResult): JobRecord {
  return {
    id: job.id,
    status: outcome.status,
    createdAtMs: job.createdAtMs,
    contentJson: outcome.status === 'completed' ? outcome.contentJson : null,
    errorJson: outcome.status === 'failed' ? JSON.stringify(outcome.error) : null,
  }
}

/** A failed job is worth a line of its own, without the upstream's words: they may quote the conversation. */
function logSettled(log: Log, job: Job, { outcome, usage }: ExecutionResult, runMs: number): void {
  const { id, account, model } = job
  const fields = { job_id: id, account, model, target: usage.target, ms: Math.round(runMs) }
  if (outcome.status === 'completed') log.debug(fields, 'job completed')
  else {
    const { code, upstream_status } = outcome.error
    log.warn({ ...fields, code, upstream_status }, 'job failed')
  }
}
