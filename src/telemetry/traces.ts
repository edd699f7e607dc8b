/**
 * Records OpenTelemetry spans for the life of a job, with the GenAI conventions for calls to models. The SDK must be registered
 * before the service is created, by `otlp.ts` or by the operator. Without an SDK nothing is wrapped, so tracing costs nothing.
 * No span may contain text of a conversation or an answer, or the address of a caller.
 */
import {
  type Attributes,
  type Context,
  context,
  isSpanContextValid,
  metrics,
  ProxyTracerProvider,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { CLIENT_GONE } from '../client-gone.ts'
import type { Usage } from '../job/job.ts'
import { traceparentOf } from '../job/response-format.ts'
import type { Poster } from '../net/post.ts'
import type { ExecuteJob } from '../queue/execute.ts'
import type { Acceptance, Settlement, Store } from '../store/store.ts'
import type { ModelRequest, RoutedReply, Router } from '../upstreams/model-server.ts'

export function isTracing(): boolean {
  const provider = trace.getTracerProvider()
  if (!(provider instanceof ProxyTracerProvider)) return true
  return provider.getDelegate().constructor.name !== 'NoopTracerProvider'
}

const tracer = trace.getTracer('parley')

async function withSpan<T>(
  name: string,
  kind: SpanKind,
  work: (span: Span) => Promise<T>,
  parent: Context = context.active(),
): Promise<T> {
  return tracer.startActiveSpan(name, { kind }, parent, async (span) => {
    try {
      return await work(span)
    } catch (error) {
      span.setStatus({ code: SpanStatusCode.ERROR })
      throw error
    } finally {
      span.end()
    }
  })
}

/** Execution and settlement share the usage object, so the settlement finds the context of the execution here. */
const contexts = new WeakMap<Usage, Context>()

/** Records the spans `parley.accept` and `parley.settle`. A job that a cached response completes at once has only the first. */
export function tracedStore(store: Store): Store {
  const accept = (acceptance: Acceptance) =>
    withSpan('parley.accept', SpanKind.INTERNAL, async (span) => {
      span.setAttribute(
        'parley.job.ids',
        acceptance.jobs.map(({ job }) => job.id),
      )
      const accepted = await store.accept(acceptance)
      if (accepted.kind === 'accepted' && accepted.answered)
        span.setAttribute(
          'parley.job.answered',
          accepted.answered.map(({ jobId }) => jobId),
        )
      return accepted
    })
  const settle = (settlement: Settlement) =>
    withSpan(
      'parley.settle',
      SpanKind.INTERNAL,
      (span) => {
        span.setAttribute('parley.job.id', settlement.jobId)
        return store.settle(settlement)
      },
      contexts.get(settlement.usage) ?? ROOT_CONTEXT,
    )
  return new Proxy(store, {
    get(target, name) {
      if (name === 'accept') return accept
      if (name === 'settle') return settle
      const member: unknown = Reflect.get(target, name)
      return typeof member === 'function' ? member.bind(target) : member
    },
  })
}

/**
 * Records the span `parley.queue` from the creation of a job to the start of its execution, and `parley.run` for the execution.
 * On any node, both belong to the trace that is stored with the job, if there is one.
 */
export function tracedExecution(execute: ExecuteJob): ExecuteJob {
  return (job, signal, cacheKey, events) => {
    const traceparent = traceparentOf(job.responseFormatJson)
    const parent = (traceparent !== null && contextOf(traceparent)) || ROOT_CONTEXT
    const about = { 'parley.job.id': job.id, 'parley.job.attempt': job.attempt }
    tracer.startSpan('parley.queue', { startTime: job.createdAtMs, attributes: about }, parent).end()
    return withSpan(
      'parley.run',
      SpanKind.INTERNAL,
      async (span) => {
        span.setAttributes({ ...about, 'parley.job.model': job.model })
        const result = await execute(job, signal, cacheKey, events)
        span.setAttribute('parley.job.outcome', result?.outcome?.status ?? 'released')
        if (result === null || result.outcome === null) return result
        contexts.set(result.usage, parent)
        if (result.outcome.status === 'failed') {
          span.setAttribute('error.type', result.outcome.error.code)
          span.setStatus({ code: SpanStatusCode.ERROR })
        }
        span.setAttribute('parley.cache_hit', result.usage.cache_hit)
        return result
      },
      parent,
    )
  }
}

/** Records a span `chat MODEL` for each request to the router, and the GenAI metrics. */
export function tracedRouter(router: Router): Router {
  const record = genAiMetrics()
  return {
    ask: (request, signal) =>
      withSpan(`chat ${request.model}`, SpanKind.CLIENT, async (span) => {
        const routed = await router.ask(request, signal)
        span.setAttributes({
          ...modelAttributes(request, routed.target),
          'gen_ai.usage.input_tokens': routed.tokens.input,
          'gen_ai.usage.output_tokens': routed.tokens.output,
          'parley.job.id': request.jobId,
          'parley.calls': routed.calls.length,
        })
        const finish = finishReason(routed)
        if (finish !== null) span.setAttribute('gen_ai.response.finish_reasons', [finish])
        if (routed.reply.kind !== 'answer') {
          // `trouble` is the released name for an error, as in receipts.
          span.setAttribute('error.type', routed.reply.kind === 'error' ? 'trouble' : routed.reply.kind)
          span.setStatus({ code: SpanStatusCode.ERROR })
        }
        record(request, routed)
        return routed
      }),
    close: () => router.close(),
  }
}

/** Records a span `parley.callback` for each attempt, if the job has a trace. The receiver gets the span's `traceparent`. */
export function tracedPoster(poster: Poster): Poster {
  return {
    post: (request) => {
      const stored = request.headers.traceparent ?? ''
      const parent = contextOf(stored)
      if (parent === null) return poster.post(request)
      return withSpan(
        'parley.callback',
        SpanKind.CLIENT,
        async (span) => {
          const traceparent = activeTraceparent() ?? stored
          const result = await poster.post({ ...request, headers: { ...request.headers, traceparent } })
          span.setAttribute('http.request.method', 'POST')
          const jobId = request.headers['webhook-id']
          if (jobId !== undefined) span.setAttribute('parley.job.id', jobId)
          if (result.kind === 'answered') span.setAttribute('http.response.status_code', result.status)
          else span.setAttribute('error.type', result.kind)
          if (result.kind !== 'answered' || result.status >= 300) {
            span.setStatus({ code: SpanStatusCode.ERROR })
          }
          return result
        },
        parent,
      )
    },
    close: () => poster.close(),
  }
}

/** `target` is `upstream/model`. Names of upstreams contain no slash. */
function modelAttributes({ model }: Pick<ModelRequest, 'model'>, target: string | null): Attributes {
  const about = { 'gen_ai.operation.name': 'chat', 'gen_ai.request.model': model }
  if (target === null) return about
  const slash = target.indexOf('/')
  return {
    ...about,
    'gen_ai.provider.name': target.slice(0, slash),
    'gen_ai.response.model': target.slice(slash + 1),
  }
}

function finishReason({ reply }: RoutedReply): string | null {
  if (reply.kind === 'refused') return 'content_filter'
  if (reply.truncated) return 'length'
  return reply.kind === 'answer' ? 'stop' : null
}

/** The GenAI conventions recommend these bounds. */
const TOKENS = [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864]
const SECONDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]

function genAiMetrics(): (request: ModelRequest, routed: RoutedReply) => void {
  const meter = metrics.getMeter('parley')
  const duration = meter.createHistogram('gen_ai.client.operation.duration', {
    description: 'Duration of a call to a model server.',
    unit: 's',
    advice: { explicitBucketBoundaries: SECONDS },
  })
  const usage = meter.createHistogram('gen_ai.client.token.usage', {
    description: 'Tokens of a request, as counted by the model server.',
    unit: '{token}',
    advice: { explicitBucketBoundaries: TOKENS },
  })
  return (request, { calls, tokens, target }) => {
    for (const { target: called, ms, kind } of calls) {
      const failed = kind !== 'answer' && { 'error.type': kind }
      duration.record(ms / 1000, { ...modelAttributes(request, called), ...failed })
    }
    if (target === null) return
    const about = modelAttributes(request, target)
    if (tokens.input > 0) usage.record(tokens.input, { ...about, 'gen_ai.token.type': 'input' })
    if (tokens.output > 0) usage.record(tokens.output, { ...about, 'gen_ai.token.type': 'output' })
  }
}

const CREATES: ReadonlySet<string | undefined> = new Set([
  '/api/v1/messages',
  '/api/v1/messages/batches',
  '/v1/chat/completions',
  '/v1/responses',
])

/**
 * Records a server span for each request that creates jobs, as part of the trace in the request's `traceparent`. Call this
 * before the routes are declared, because hooks apply only to later routes.
 */
export function traceCreates(app: FastifyInstance): void {
  const open = new WeakMap<FastifyRequest, { readonly span: Span; readonly inside: Context }>()
  app.addHook('onRequest', (request, { raw }, done) => {
    const { url } = request.routeOptions
    if (request.method === 'POST' && CREATES.has(url)) {
      const { traceparent } = request.headers
      // The operator's SDK may already have started a span for the request.
      const isBegun = trace.getActiveSpan() !== undefined
      const given = isBegun || typeof traceparent !== 'string' ? null : contextOf(traceparent)
      const parent = given ?? context.active()
      const attributes = { 'http.request.method': 'POST', 'http.route': url }
      const span = tracer.startSpan(`POST ${url}`, { kind: SpanKind.SERVER, attributes }, parent)
      open.set(request, { span, inside: trace.setSpan(parent, span) })
      // Fastify does not call `onResponse` if the client disconnects before the end of the response.
      raw.once('close', () => {
        if (!raw.writableFinished) end(request, CLIENT_GONE)
      })
    }
    done()
  })
  // Reading the body loses the context, so a later hook sets it.
  app.addHook('preHandler', (request, _reply, done) => {
    const traced = open.get(request)
    if (traced === undefined) done()
    else context.with(traced.inside, done)
  })
  const end = (request: FastifyRequest, status: number) => {
    const span = open.get(request)?.span
    span?.setAttribute('http.response.status_code', status)
    if (status >= 500) span?.setStatus({ code: SpanStatusCode.ERROR })
    span?.end()
  }
  app.addHook('onResponse', (request, reply, done) => {
    end(request, reply.statusCode)
    done()
  })
}

/** Later versions of the format of `traceparent` may have further parts, which are ignored. */
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:$|-)/
const SAMPLED = 1

export function activeTraceparent(): string | null {
  const context = trace.getActiveSpan()?.spanContext()
  if (!context || !isSpanContextValid(context)) return null
  return `00-${context.traceId}-${context.spanId}-0${context.traceFlags & SAMPLED}`
}

/** Returns the context for spans that continue this one; null if the text is not a valid `traceparent`. */
function contextOf(traceparent: string): Context | null {
  const [, traceId = '', spanId = '', flags = ''] = TRACEPARENT.exec(traceparent) ?? []
  const traceFlags = Number.parseInt(flags, 16) & SAMPLED
  const parent = { traceId, spanId, traceFlags, isRemote: true }
  return isSpanContextValid(parent) ? trace.setSpanContext(ROOT_CONTEXT, parent) : null
}
