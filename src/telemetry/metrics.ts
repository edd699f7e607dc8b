/** What Parley measures of itself, in the Prometheus text format. Names are stable: dashboards and alerts rely on them. */
import { collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import type { Answered } from '../http/server.ts'
import type { ClaimedJob } from '../job/job.ts'
import type { RunResult } from '../life/run.ts'
import type { CallEvent, UpstreamState } from '../model/router.ts'
import {
  type CallbackAttempt,
  type CallbackDepth,
  type CallbackLane,
  type CallbackNext,
  COUNTED,
} from '../store/callback-store.ts'
import type { Depth } from '../store/store.ts'
import { type Happened, happened } from './happened.ts'
import { Percentiles } from './percentiles.ts'
import { Count, Distribution } from './tally.ts'

const FAST_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5]
const SLOW_S = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600]
const GROUP_SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]

/** What is read at the moment of a scrape. */
export interface Gauges {
  depth(): Promise<Depth>
  callbackDepth(): Promise<CallbackDepth>
  callbacksUnderWay(): Readonly<Record<CallbackLane, number>>
  running(): number
  waiters(): number
  upstreams(): readonly UpstreamState[]
  nowMs(): number
}

export class Metrics {
  readonly #registry = new Registry()
  readonly #requests = this.#counter('http_requests_total', 'HTTP requests answered.', [
    'method',
    'route',
    'status',
  ])
  readonly #requestTime = this.#histogram('http_request_seconds', 'Time to the answer.', SLOW_S, ['route'])
  readonly #jobs = this.#counter('jobs_total', 'Jobs that ended.', ['model', 'outcome'])
  readonly #wait = this.#histogram('job_wait_seconds', 'From acceptance to the start of a run.', SLOW_S, [])
  readonly #run = this.#histogram('job_run_seconds', 'Time of a run.', SLOW_S, ['model'])
  readonly #waits = new Percentiles()
  readonly #runs = new Percentiles()
  readonly #cacheHits = this.#counter('cache_hits_total', 'Jobs answered from a kept answer.', ['model'])
  readonly #repairs = this.#counter('repairs_total', 'Answers that had to be repaired.', ['model'])
  readonly #tokens = this.#counter('tokens_total', 'Tokens as upstreams counted them.', [
    'model',
    'direction',
  ])
  readonly #calls = this.#counter('upstream_calls_total', 'Calls to upstreams.', [
    'upstream',
    'model',
    'result',
  ])
  readonly #callTime = this.#histogram('upstream_call_seconds', 'Time of a call.', SLOW_S, [
    'upstream',
    'model',
  ])
  readonly #attempts = this.#counter('callback_attempts_total', 'Attempts to deliver a callback.', ['result'])
  readonly #attemptTime = this.#histogram('callback_attempt_seconds', 'Time of an attempt.', SLOW_S, [])
  readonly #callbacks = this.#counter('callbacks_total', 'Callbacks that ended.', ['outcome'])
  readonly #commits = this.#histogram('commit_seconds', 'Time of a group commit.', FAST_S, [])
  readonly #groups = this.#histogram('commit_group_size', 'Writes in a group commit.', GROUP_SIZES, [])

  constructor() {
    collectDefaultMetrics({ register: this.#registry })
  }

  /** Adds what is read from the running parts at each scrape. */
  watch(gauges: Gauges): void {
    this.#watchQueue(gauges)
    this.#watchUpstreams(gauges)
    this.#watchCallbacks(gauges)
    this.#gauge('jobs_running', 'Jobs in hand on this node.', gauges.running)
    this.#gauge('waiters', 'Single creates that wait on this node.', gauges.waiters)
  }

  async text(): Promise<{ type: string; text: string }> {
    return { type: this.#registry.contentType, text: await this.#registry.metrics() }
  }

  /** What has happened since the last call: for one who asks. */
  happened(): Happened {
    return happened({
      jobs: this.#jobs.grown(),
      tokens: this.#tokens.grown(),
      cacheHits: this.#cacheHits.grown(),
      calls: this.#calls.grown(),
      attempts: this.#attempts.grown(),
      callbacks: this.#callbacks.grown(),
      waits: this.#waits.take(),
      runs: this.#runs.take(),
    })
  }

  answered({ method, route, status, ms }: Answered): void {
    this.#requests.add(1, method, route, String(status))
    this.#requestTime.observe(ms / 1000, route)
  }

  started(job: ClaimedJob, nowMs: number): void {
    const ms = Math.max(0, nowMs - job.createdAtMs)
    this.#wait.observe(ms / 1000)
    this.#waits.add(ms)
  }

  settled({ model }: ClaimedJob, { outcome, usage, receipt }: RunResult, runMs: number): void {
    this.#jobs.add(1, model, outcome.status === 'completed' ? 'completed' : outcome.error.code)
    this.#run.observe(runMs / 1000, model)
    this.#runs.add(runMs)
    if (usage.cache_hit) this.#cacheHits.add(1, model)
    if (receipt.repair) this.#repairs.add(1, model)
    if (usage.input_tokens > 0) this.#tokens.add(usage.input_tokens, model, 'input')
    if (usage.output_tokens > 0) this.#tokens.add(usage.output_tokens, model, 'output')
  }

  called({ upstream, model, kind, status, aborted, ms }: CallEvent): void {
    const result = aborted ? 'aborted' : kind === 'trouble' ? `trouble ${status ?? 'connection'}` : kind
    this.#calls.add(1, upstream, model, result)
    this.#callTime.observe(ms / 1000, upstream, model)
  }

  calledBack({ status, error, ms }: CallbackAttempt, next: CallbackNext['kind']): void {
    const result = next === 'delivered' ? next : error === null ? `answered ${status}` : 'no answer'
    this.#attempts.add(1, result)
    this.#attemptTime.observe(ms / 1000)
    if (next !== 'due') this.#callbacks.add(1, next)
  }

  committed(size: number, ms: number): void {
    this.#commits.observe(ms / 1000)
    this.#groups.observe(size)
  }

  #counter(name: string, help: string, labelNames: readonly string[]): Count {
    return new Count(this.#registry, `parley_${name}`, help, labelNames)
  }

  #histogram(name: string, help: string, bounds: readonly number[], labelNames: readonly string[]) {
    return new Distribution(this.#registry, `parley_${name}`, help, bounds, labelNames)
  }

  #gauge(name: string, help: string, read: () => number): void {
    const registers = [this.#registry]
    new Gauge({
      name: `parley_${name}`,
      help,
      registers,
      collect() {
        this.set(read())
      },
    })
  }

  #watchQueue({ depth, nowMs }: Gauges): void {
    const registers = [this.#registry]
    /** Each reads for itself: gauges are collected side by side, so none may count on another's turn. */
    const gauge = (name: string, help: string, read: (depth: Depth) => number) =>
      new Gauge({
        name: `parley_${name}`,
        help,
        registers,
        async collect() {
          this.set(read(await depth()))
        },
      })
    gauge('queue_jobs', 'Jobs that wait to be claimed.', ({ waiting }) => waiting)
    gauge('jobs_assigned', 'Jobs that a node holds.', ({ assigned }) => assigned)
    gauge('queue_oldest_age_seconds', 'Age of the oldest waiting job.', ({ oldestCreatedAtMs }) =>
      oldestCreatedAtMs === null ? 0 : Math.max(0, nowMs() - oldestCreatedAtMs) / 1000,
    )
  }

  #watchCallbacks({ callbackDepth, callbacksUnderWay, nowMs }: Gauges): void {
    const registers = [this.#registry]
    const gauge = (name: string, help: string, read: (depth: CallbackDepth) => number) =>
      new Gauge({
        name: `parley_${name}`,
        help,
        registers,
        async collect() {
          this.set(read(await callbackDepth()))
        },
      })
    const upTo = `, counted up to ${COUNTED}.`
    gauge('callbacks_owed', `Callbacks not delivered yet${upTo}`, ({ owed }) => owed)
    gauge('callbacks_failed', `Callbacks that failed for good and are kept${upTo}`, ({ failed }) => failed)
    gauge(
      'callbacks_late_seconds',
      'How long the callback that is due for longest has been so.',
      ({ earliestDueMs }) => (earliestDueMs === null ? 0 : Math.max(0, nowMs() - earliestDueMs) / 1000),
    )
    new Gauge({
      name: 'parley_callbacks_under_way',
      help: 'Attempts under way on this node.',
      labelNames: ['lane'],
      registers,
      collect() {
        for (const [lane, count] of Object.entries(callbacksUnderWay())) this.set({ lane }, count)
      },
    })
  }

  #watchUpstreams(gauges: Gauges): void {
    const registers = [this.#registry]
    new Gauge({
      name: 'parley_upstream_calls',
      help: 'Calls under way, waiting for a place, and places in all.',
      labelNames: ['upstream', 'state'],
      registers,
      collect() {
        for (const { name: upstream, running, waiting, maxConcurrency } of gauges.upstreams()) {
          this.set({ upstream, state: 'running' }, running)
          this.set({ upstream, state: 'waiting' }, waiting)
          this.set({ upstream, state: 'places' }, maxConcurrency)
        }
      },
    })
    new Gauge({
      name: 'parley_upstream_skipped',
      help: '1 while every target of the upstream is skipped because it keeps failing.',
      labelNames: ['upstream'],
      registers,
      collect() {
        for (const { name: upstream, skippedUntilMs } of gauges.upstreams()) {
          this.set({ upstream }, skippedUntilMs === null ? 0 : 1)
        }
      },
    })
  }
}
