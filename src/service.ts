/** The only wiring: makes every part from the configuration, connects them, starts and stops them in order. */
import { randomBytes } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { type Clock, systemClock } from './clock.ts'
import type { Configuration } from './config/load.ts'
import type { ModelSettings, Settings } from './config/settings.ts'
import { batchRoutes } from './http/batches.ts'
import { Callers } from './http/callers.ts'
import { Creation } from './http/creation.ts'
import { documentRoutes } from './http/documents.ts'
import { healthRoutes } from './http/health.ts'
import { limitReads } from './http/limit-reads.ts'
import { meRoute } from './http/me.ts'
import { messageRoutes } from './http/messages.ts'
import { ReadWindows } from './http/read-limit.ts'
import { createServer } from './http/server.ts'
import { Waiters } from './http/waiters.ts'
import type { Job } from './job/job.ts'
import { jobIdMaker } from './job/job-id.ts'
import { type Tier, tierAllows, turnStep } from './job/tier.ts'
import { Acceptor } from './life/accept.ts'
import type { AdmissionRules } from './life/admit.ts'
import { type RunResult, runJob } from './life/run.ts'
import { ChatCompletions } from './model/chat-completions.ts'
import type { ModelServer, Router } from './model/model.ts'
import { ModelRouter } from './model/router.ts'
import { Simulator } from './model/simulator.ts'
import { checkCallbackUrl, readNetworks } from './net/address-guard.ts'
import { checkCallbackHeaders } from './net/callback-headers.ts'
import { openStore } from './store/open.ts'
import type { Store } from './store/store.ts'
import { errorFields, type Log } from './telemetry/log.ts'
import { Metrics } from './telemetry/metrics.ts'
import { isTracing, tracedRouter, tracedRun, tracedStore } from './telemetry/traces.ts'
import { TokenCounter } from './tokens/token-counter.ts'
import { VERSION } from './version.ts'
import { Sweeper } from './work/sweeper.ts'
import { Worker } from './work/worker.ts'

export interface ServiceOptions {
  readonly configuration: Configuration
  readonly log: Log
  readonly clock?: Clock
  /** Storage has ended for good; the process had better end and be started again. */
  readonly onFatal: (error: Error) => void
}

export interface Service {
  readonly store: Store
  /** Begins to listen; resolves with the address, such as `http://127.0.0.1:8080`. */
  listen(): Promise<string>
  /**
   * Stops in order: waiting callers get their 202, running jobs end or are given back, connections close, the store
   * closes last. A second call waits for the same end.
   */
  stop(): Promise<void>
}

export async function createService(options: ServiceOptions): Promise<Service> {
  const { configuration, log, clock = systemClock, onFatal } = options
  const { settings } = configuration
  const node = randomBytes(8).toString('hex')
  const metrics = new Metrics()
  const opened = await openStore(settings.database, {
    maxQueued: settings.limits.queued_writes,
    nowMs: () => clock.nowMs(),
    onCommit: (size, ms) => metrics.committed(size, ms),
    onFatal,
  })
  const store = isTracing() ? tracedStore(opened) : opened
  const modelRouter = createRouter(configuration, clock, (call) => metrics.called(call))
  const router: Router = isTracing() ? tracedRouter(modelRouter) : modelRouter
  const waiters = new Waiters(clock, settings.sync.max_waiters)
  const tiers = tiersOf(settings)
  const worker = createWorker({ store, router, node, clock, settings, tiers, waiters, log, metrics })
  metrics.watch({
    depth: () => store.depth(),
    running: () => worker.running,
    waiters: () => waiters.count,
    upstreams: () => modelRouter.state(),
    nowMs: () => clock.nowMs(),
  })
  const tokens = new TokenCounter()
  const windows = new ReadWindows(clock)
  const state = { stopping: false }
  const app = await createServer({
    callers: new Callers(store, tiers, clock),
    corsOrigins: settings.cors.origins,
    trustProxy: settings.trust_proxy,
    jsonDepth: settings.limits.json_depth,
    headerTimeoutMs: settings.limits.header_timeout_seconds * 1000,
    requestTimeoutMs: settings.limits.request_timeout_seconds * 1000,
    isStopping: () => state.stopping,
    onAnswer: (answer) => {
      metrics.answered(answer)
      logAnswer(log, answer)
    },
    onError: (error, requestId) =>
      log.error({ request_id: requestId, ...errorFields(error) }, 'a request failed'),
  })
  const acceptor = new Acceptor(store, worker, node, clock, (tier) =>
    turnStep(tiers.get(tier) ?? fallbackTier),
  )
  const rules = admissionRules(settings, clock, tokens)
  const rememberMs = Math.min(settings.limits.idempotency_seconds, settings.jobs.retention_seconds) * 1000
  const creation = new Creation(acceptor, rules, clock, rememberMs)
  await addRoutes(app, { settings, creation, waiters, store, clock, windows, state, metrics })
  await app.ready()
  const sweeper = new Sweeper(store, clock, settings.jobs.retention_seconds * 1000, (error) =>
    log.warn(errorFields(error), 'deleting what has expired failed; it is tried again'),
  )
  const reclaimed = await worker.begin()
  if (reclaimed > 0) log.info({ jobs: reclaimed }, 'jobs of a process that ended run again')
  sweeper.begin()

  const stopAll = async (): Promise<void> => {
    state.stopping = true
    sweeper.stop()
    waiters.stop()
    const closed = app.close()
    await worker.drain(settings.jobs.drain_seconds * 1000)
    await closed
    await Promise.all([router.close(), tokens.close()])
    await store.close()
  }
  let stopped: Promise<void> | null = null
  return {
    store,
    listen: () => app.listen({ host: settings.host, port: settings.port }),
    stop: () => {
      stopped ??= stopAll()
      return stopped
    },
  }
}

/** For jobs of a tier that the configuration no longer has; tiers are fixed today, so only a copied database has them. */
const fallbackTier: Tier = {
  name: 'none',
  models: [],
  maxBatchJobs: 1,
  readsPerMinute: 1,
  maxInputTokens: 1,
  weight: 1,
}

function tiersOf(settings: Settings): ReadonlyMap<string, Tier> {
  return new Map(
    Object.entries(settings.tiers).map(([name, tier]) => [
      name,
      {
        name,
        models: tier.models,
        maxBatchJobs: tier.max_batch_jobs,
        readsPerMinute: tier.reads_per_minute,
        maxInputTokens: tier.max_input_tokens,
        weight: tier.weight,
      },
    ]),
  )
}

function createRouter(
  { settings, apiKeys, simulated }: Configuration,
  clock: Clock,
  onCall: Metrics['called'],
): ModelRouter {
  const simulator = simulated ? new Simulator(clock) : null
  const serverFor = (name: string): ModelServer => {
    const upstream = settings.upstreams[name]
    if (simulator || !upstream) return simulator ?? new Simulator(clock)
    return new ChatCompletions({ name, settings: upstream, apiKey: apiKeys.get(name) ?? null, clock })
  }
  return new ModelRouter({
    upstreams: new Map(
      Object.entries(settings.upstreams).map(([name, { max_concurrency }]) => [
        name,
        { server: serverFor(name), maxConcurrency: max_concurrency },
      ]),
    ),
    models: settings.models,
    clock,
    random: Math.random,
    onCall,
  })
}

interface WorkerParts {
  readonly store: Store
  readonly router: Router
  readonly node: string
  readonly clock: Clock
  readonly settings: Settings
  readonly tiers: ReadonlyMap<string, Tier>
  readonly waiters: Waiters
  readonly log: Log
  readonly metrics: Metrics
}

function createWorker({
  store,
  router,
  node,
  clock,
  settings,
  tiers,
  waiters,
  log,
  metrics,
}: WorkerParts): Worker {
  const run = (job: Parameters<typeof runJob>[0], signal: AbortSignal) =>
    runJob(
      job,
      {
        store,
        router,
        clock,
        cacheEnabled: settings.cache.enabled,
        maxAttempts: settings.jobs.max_attempts,
        allows: (tier, model) => tierAllows(tiers.get(tier) ?? fallbackTier, model),
      },
      signal,
    )
  return new Worker({
    store,
    node,
    clock,
    concurrency: settings.jobs.concurrency,
    runTimeoutMs: settings.jobs.run_timeout_seconds * 1000,
    run: isTracing() ? tracedRun(run) : run,
    events: {
      started: (job) => metrics.started(job, clock.nowMs()),
      settled: (job, result, settled, runMs) => {
        if (settled === 'gone') return waiters.vanished(job.id)
        if (settled === 'stale') return
        waiters.settled(viewOf(job, result), result.usage.cache_hit)
        metrics.settled(job, result, runMs)
        logSettled(log, job, result, runMs)
      },
      trouble: (message, error) => log.error(errorFields(error), message),
    },
  })
}

function viewOf(job: Job, { outcome }: RunResult) {
  return {
    id: job.id,
    status: outcome.status,
    createdAtMs: job.createdAtMs,
    contentJson: outcome.status === 'completed' ? outcome.contentJson : null,
    errorJson: outcome.status === 'failed' ? JSON.stringify(outcome.error) : null,
  }
}

/** A failed job is worth a line of its own, without the upstream's words: they may quote the conversation. */
function logSettled(log: Log, job: Job, { outcome, usage }: RunResult, runMs: number): void {
  const fields = {
    job_id: job.id,
    account: job.account,
    model: job.model,
    target: usage.target,
    ms: Math.round(runMs),
  }
  if (outcome.status === 'completed') log.debug(fields, 'job completed')
  else {
    const { code, upstream_status } = outcome.error
    log.warn({ ...fields, code, upstream_status }, 'job failed')
  }
}

function logAnswer(
  log: Log,
  { requestId, method, route, status, ms, account, jobIds }: Parameters<Metrics['answered']>[0],
) {
  const fields = {
    request_id: requestId,
    method,
    route,
    status,
    ms: Math.round(ms * 10) / 10,
    account,
    job_ids: jobIds,
  }
  if (status >= 500) log.warn(fields, 'answered')
  else log.info(fields, 'answered')
}

function admissionRules(settings: Settings, clock: Clock, tokens: TokenCounter): AdmissionRules {
  const networks = readNetworks(settings.callbacks.allow_networks)
  const addresses = { allow: networks.ok ? networks.networks : [], httpsOnly: settings.callbacks.https_only }
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
    makeId: jobIdMaker(() => clock.nowMs(), (bytes) => randomBytes(bytes).toString('hex')),
    nowMs: () => clock.nowMs(),
  }
}

/** The input sizes at which the choice of a model changes. */
function sizeSteps({ auto }: ModelSettings): number[] {
  return (auto ?? []).flatMap(({ up_to_tokens }) => up_to_tokens ?? [])
}

interface RouteParts {
  readonly settings: Settings
  readonly creation: Creation
  readonly waiters: Waiters
  readonly store: Store
  readonly clock: Clock
  readonly windows: ReadWindows
  readonly state: { readonly stopping: boolean }
  readonly metrics: Metrics
}

async function addRoutes(app: FastifyInstance, parts: RouteParts): Promise<void> {
  const { settings, creation, waiters, store, clock, windows, state, metrics } = parts
  const { body_bytes: bodyBytes, batch_body_bytes: batchBodyBytes } = settings.limits
  const retentionSeconds = settings.jobs.retention_seconds
  await documentRoutes(app, VERSION)
  await limitReads(app, windows)
  const retentionMs = retentionSeconds * 1000
  messageRoutes(app, { creation, waiters, store, clock, retentionMs, bodyBytes })
  batchRoutes(app, { creation, bodyBytes: batchBodyBytes })
  meRoute(app, { models: Object.keys(settings.models), windows, retentionSeconds, bodyBytes, batchBodyBytes })
  healthRoutes(app, {
    ready: async () => {
      if (state.stopping) throw new Error('the server is stopping')
      await store.ping()
    },
    metrics: () => metrics.text(),
  })
}
