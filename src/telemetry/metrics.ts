/**
 * Counts what happens in a node, and returns Parley's metrics in the Prometheus text format. Names of metrics must not change,
 * because dashboards and alerts use them.
 */
import { Registry } from 'prom-client'
import type { BatchAdvance } from '../batches/progress.ts'
import type { TaskName } from '../cpu-pool/thread.ts'
import type { ClaimedJob, FailureCode } from '../job/job.ts'
import type { ExecutionResult } from '../queue/execution-result.ts'
import type { QuotaReached } from '../queue/quotas.ts'
import { ENDED_STATUSES } from '../store/batch-store.ts'
import type { CallbackAttempt, CallbackNext } from '../store/callback-store.ts'
import type { CallEvent } from '../upstreams/call-target.ts'
import { MetricCounter, MetricHistogram, Percentiles, type SampleDeltas, sampleDeltas } from './counters.ts'
import { type Gauges, registerGauges } from './gauges.ts'
import { addRuntimeMetrics } from './runtime-metrics.ts'

const FAST_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5]
const SLOW_S = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600]
const GROUP_SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]

/** A cancellation ends a job without a settlement, so `cancelled` is not an outcome here. */
const OUTCOMES: Readonly<Record<Exclude<FailureCode, 'cancelled'> | 'completed', true>> = {
  completed: true,
  timeout: true,
  deadline_exceeded: true,
  content_policy_violation: true,
  model_error: true,
  validation_error: true,
  answer_not_checked: true,
  internal_error: true,
}

/** The values of a histogram have the names of the Prometheus text format. */
export interface MetricValues {
  readonly name: string
  readonly help: string
  readonly type: string
  readonly values: readonly {
    readonly labels: Readonly<Record<string, string | number | undefined>>
    readonly value: number
    readonly metricName?: string
  }[]
}

export class Metrics {
  readonly #registry = new Registry()
  readonly #requests = this.#counter('http_requests_total', 'HTTP requests completed.', [
    'method',
    'route',
    'status',
  ])
  readonly #requestTime = this.#histogram('http_request_seconds', 'Time from request to response.', SLOW_S, [
    'route',
  ])
  readonly #jobs = this.#counter('jobs_total', 'Finished jobs.', ['model', 'outcome'])
  readonly #wait = this.#histogram(
    'job_wait_seconds',
    'Time from acceptance of a job to the start of an execution.',
    SLOW_S,
  )
  readonly #run = this.#histogram('job_run_seconds', 'Duration of an execution.', SLOW_S, ['model'])
  readonly #waits = new Percentiles()
  readonly #runs = new Percentiles()
  readonly #cacheHits = this.#counter('cache_hits_total', 'Jobs completed from a cached response.', ['model'])
  readonly #repairs = this.#counter('repairs_total', 'Answers that needed a repair.', ['model'])
  readonly #tokens = this.#counter('tokens_total', 'Tokens, as counted by upstreams.', ['model', 'direction'])
  readonly #calls = this.#counter('upstream_calls_total', 'Calls to upstreams.', [
    'upstream',
    'model',
    'result',
  ])
  readonly #callTime = this.#histogram('upstream_call_seconds', 'Duration of a call.', SLOW_S, [
    'upstream',
    'model',
  ])
  readonly #truncated = this.#counter(
    'truncated_answers_total',
    'Answers that were cut off at a length limit (finish_reason length).',
    ['upstream', 'model'],
  )
  readonly #contextShifts = this.#counter(
    'context_shifts_total',
    'Answers for which the model server counted far fewer tokens than the conversation has.',
    ['upstream', 'model'],
  )
  readonly #attempts = this.#counter('callback_attempts_total', 'Attempts to deliver a callback.', ['result'])
  readonly #attemptTime = this.#histogram('callback_attempt_seconds', 'Duration of an attempt.', SLOW_S)
  readonly #callbacks = this.#counter(
    'callbacks_total',
    'Callbacks that were delivered or failed permanently.',
    ['outcome'],
  )
  readonly #cpuTime = this.#histogram(
    'cpu_task_seconds',
    'Duration of a task on the threads for CPU-heavy work.',
    SLOW_S,
    ['task'],
  )
  readonly cpuRejected = this.#event(
    'cpu_requests_rejected_total',
    'Requests rejected with 503 because too many requests were being read or counted.',
  )
  readonly #rescued = this.#counter('jobs_reclaimed_total', 'Jobs rescued from dead nodes.')
  readonly #reverted = this.#counter(
    'crashes_reverted_total',
    'Job crashes that this node reverted because the node that ran the jobs was only paused.',
  )
  readonly leaseLost = this.#event('leases_lost_total', 'How often the lease of this node expired.')
  readonly #quotaRejections = this.#counter(
    'quota_rejections_total',
    'Requests rejected because of a quota of their account.',
    ['quota'],
  )
  readonly memoryRejected = this.#event(
    'memory_rejections_total',
    'Requests rejected with 503 because of limits.memory_bytes: `over part` if their account exceeded its limit, `full` if the whole share was in use.',
    { share: ['uploads', 'requests', 'answers'], reason: ['over part', 'full'] },
  )
  readonly databaseRejected = this.#event(
    'database_rejections_total',
    'Requests rejected with 503 because the database failed, or because limits.queued_writes writes were waiting for it.',
  )
  readonly connectionRejected = this.#event(
    'connections_rejected_total',
    'Connections rejected because of limits.connections or limits.connections_per_address.',
    { limit: ['connections', 'connections_per_address'] },
  )
  readonly connectionStalled = this.#event(
    'connections_stalled_total',
    'Connections closed because the client did not read (limits.stalled_write_seconds).',
  )
  readonly unknownKeyRejected = this.#event(
    'unknown_key_rejections_total',
    'Requests rejected because their address had sent too many unknown API keys.',
  )
  readonly rejectionDelayed = this.#event(
    'rejections_delayed_total',
    'Rejections that were delayed because of limits.rejections_per_second.',
  )
  readonly callerActed = this.#event(
    'caller_actions_total',
    'Jobs that were cancelled or deleted by their callers.',
    { action: ['cancel', 'delete'] },
  )
  readonly #batches = this.#counter('batches_total', 'Batches that have ended, by status.', ['status'])
  readonly #batchLines = this.#counter('batch_lines_total', 'Lines of batches that have ended.', ['result'])
  readonly #commits = this.#histogram('commit_seconds', 'Duration of a group commit.', FAST_S)
  readonly #groups = this.#histogram('commit_group_size', 'Number of writes in a group commit.', GROUP_SIZES)

  constructor(models: readonly string[] = []) {
    addRuntimeMetrics(this.#registry)
    // These counters start at 0, because Prometheus does not count the first increase of a counter that appears with the value
    // 1.
    for (const model of models) for (const outcome of Object.keys(OUTCOMES)) this.#jobs.add(0, model, outcome)
    this.#callbacks.add(0, 'failed')
    for (const status of ENDED_STATUSES) this.#batches.add(0, status)
    for (const result of ['completed', 'failed']) this.#batchLines.add(0, result)
    for (const unit of ['open_jobs', 'stored_bytes']) this.#quotaRejections.add(0, unit)
  }

  batchAdvanced({ completed, failed, ended }: BatchAdvance): void {
    this.#batchLines.add(completed, 'completed')
    this.#batchLines.add(failed, 'failed')
    if (ended !== null) this.#batches.add(1, ended)
  }

  watch(gauges: Gauges): void {
    registerGauges(this.#registry, gauges)
  }

  async text(): Promise<{ type: string; text: string }> {
    return { type: this.#registry.contentType, text: await this.#registry.metrics() }
  }

  /** @param isStopped whether the parts that gauges read have stopped; gauges are then left out */
  async values(isStopped: boolean): Promise<readonly MetricValues[]> {
    const isLeft = (metric: unknown) => metric instanceof MetricCounter || metric instanceof MetricHistogram
    // prom-client's declared type is wrong. This type describes what `get` returns.
    const metrics = this.#registry.getMetricsAsArray() as unknown as { get(): Promise<MetricValues> }[]
    const left = isStopped ? metrics.filter(isLeft) : metrics
    return Promise.all(left.map((metric) => metric.get()))
  }

  /** Returns the changes since the last call, so only one caller may use this. */
  takeDeltas(): SampleDeltas {
    return sampleDeltas({
      jobs: this.#jobs.takeIncreases(),
      tokens: this.#tokens.takeIncreases(),
      cacheHits: this.#cacheHits.takeIncreases(),
      calls: this.#calls.takeIncreases(),
      attempts: this.#attempts.takeIncreases(),
      callbacks: this.#callbacks.takeIncreases(),
      waits: this.#waits.take(),
      runs: this.#runs.take(),
    })
  }

  requestCompleted(method: string, route: string, status: number, ms: number): void {
    this.#requests.add(1, method, route, String(status))
    this.#requestTime.observe(ms / 1000, route)
  }

  started(job: ClaimedJob, nowMs: number): void {
    // If the job has run before, the time since its creation also contains that execution.
    if (job.earlierJson !== undefined) return
    const ms = Math.max(0, nowMs - job.createdAtMs)
    this.#wait.observe(ms / 1000)
    this.#waits.add(ms)
  }

  settled(
    { model }: Pick<ClaimedJob, 'model'>,
    { outcome, usage, receipt }: Omit<ExecutionResult, 'cache'>,
    runMs: number | null,
  ): void {
    this.#jobs.add(1, model, outcome.status === 'completed' ? 'completed' : outcome.error.code)
    if (runMs !== null) {
      this.#run.observe(runMs / 1000, model)
      this.#runs.add(runMs)
    }
    if (usage.cache_hit) this.#cacheHits.add(1, model)
    if (receipt.repair) this.#repairs.add(1, model)
    if (usage.input_tokens > 0) this.#tokens.add(usage.input_tokens, model, 'input')
    if (usage.output_tokens > 0) this.#tokens.add(usage.output_tokens, model, 'output')
  }

  readonly called = ({ upstream, model, kind, status, aborted, isTruncated, ms }: CallEvent): void => {
    const result = aborted ? 'aborted' : kind === 'error' ? `trouble ${status ?? 'connection'}` : kind
    this.#calls.add(1, upstream, model, result)
    this.#callTime.observe(ms / 1000, upstream, model)
    if (isTruncated) this.#truncated.add(1, upstream, model)
  }

  /** `target` is `upstream/model`. Names of upstreams contain no slash. */
  contextShifted(target: string): void {
    const slash = target.indexOf('/')
    this.#contextShifts.add(1, target.slice(0, slash), target.slice(slash + 1))
  }

  calledBack({ status, error, ms }: CallbackAttempt, next: CallbackNext['kind']): void {
    const result = next === 'delivered' ? next : error === null ? `answered ${status}` : 'no answer'
    this.#attempts.add(1, result)
    this.#attemptTime.observe(ms / 1000)
    if (next !== 'due') this.#callbacks.add(1, next)
  }

  rescued(jobs: number): void {
    this.#rescued.add(jobs)
  }

  crashesReverted(crashes: number): void {
    this.#reverted.add(crashes)
  }

  readonly quotaReached = ({ unit }: QuotaReached): void => {
    this.#quotaRejections.add(1, unit.replace(' ', '_'))
  }

  readonly cpuTask = (task: TaskName, ms: number): void => {
    this.#cpuTime.observe(ms / 1000, task)
  }

  readonly committed = (size: number, ms: number): void => {
    this.#commits.observe(ms / 1000)
    this.#groups.observe(size)
  }

  /** Returns a function that counts one event, by the values of its labels. Further arguments are ignored. */
  #event(name: string, help: string, labels: Readonly<Record<string, readonly string[]>> = {}) {
    const names = Object.keys(labels)
    const counter = this.#counter(name, help, names)
    const all = Object.values(labels).reduce<readonly string[][]>(
      (some, values) => some.flatMap((before) => values.map((value) => [...before, value])),
      [[]],
    )
    for (const values of all) counter.add(0, ...values)
    return (...values: string[]): void => counter.add(1, ...values.slice(0, names.length))
  }

  /** A counter without labels starts at 0. */
  #counter(name: string, help: string, labelNames: readonly string[] = []): MetricCounter {
    const counter = new MetricCounter(this.#registry, `parley_${name}`, help, labelNames)
    if (labelNames.length === 0) counter.add(0)
    return counter
  }

  #histogram(name: string, help: string, bounds: readonly number[], labelNames: readonly string[] = []) {
    return new MetricHistogram(this.#registry, `parley_${name}`, help, bounds, labelNames)
  }
}
