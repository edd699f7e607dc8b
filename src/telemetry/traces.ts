/**
 * OpenTelemetry spans for the life of a job, with the GenAI names for calls to models. They exist only when an SDK is
 * loaded (`NODE_OPTIONS=--import …`) before the service is created; otherwise nothing is wrapped, and tracing costs nothing.
 */
import { ProxyTracerProvider, type Span, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import type { ExecuteJob } from '../queue/execute.ts'
import type { Acceptance, Settlement, Store } from '../store/store.ts'
import type { Router } from '../upstreams/model-server.ts'

/** Whether an SDK records spans. */
export function isTracing(): boolean {
  const provider = trace.getTracerProvider()
  if (!(provider instanceof ProxyTracerProvider)) return true
  return provider.getDelegate().constructor.name !== 'NoopTracerProvider'
}

const tracer = trace.getTracer('parley')

async function withSpan<T>(name: string, kind: SpanKind, work: (span: Span) => Promise<T>): Promise<T> {
  return tracer.startActiveSpan(name, { kind }, async (span) => {
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

/** Spans `parley.accept` and `parley.settle`. A job that a cached response completes when it is accepted has only the first. */
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
    withSpan('parley.settle', SpanKind.INTERNAL, (span) => {
      span.setAttribute('parley.job.id', settlement.jobId)
      return store.settle(settlement)
    })
  return new Proxy(store, {
    get(target, name) {
      if (name === 'accept') return accept
      if (name === 'settle') return settle
      const member: unknown = Reflect.get(target, name)
      return typeof member === 'function' ? member.bind(target) : member
    },
  })
}

/** A span `parley.run` for each execution, with its outcome. */
export function tracedExecution(execute: ExecuteJob): ExecuteJob {
  return (job, signal, cacheKey) =>
    withSpan('parley.run', SpanKind.INTERNAL, async (span) => {
      span.setAttributes({
        'parley.job.id': job.id,
        'parley.job.model': job.model,
        'parley.job.attempt': job.attempt,
      })
      const result = await execute(job, signal, cacheKey)
      span.setAttribute('parley.job.outcome', result?.outcome?.status ?? 'released')
      if (result === null || result.outcome === null) return result
      if (result.outcome.status === 'failed') {
        span.setAttribute('error.type', result.outcome.error.code)
        span.setStatus({ code: SpanStatusCode.ERROR })
      }
      span.setAttribute('parley.cache_hit', result.usage.cache_hit)
      return result
    })
}

/** A span `chat MODEL` for each request to the router. */
export function tracedRouter(router: Router): Router {
  return {
    ask: (request, signal) =>
      withSpan(`chat ${request.model}`, SpanKind.CLIENT, async (span) => {
        const routed = await router.ask(request, signal)
        span.setAttributes({
          'gen_ai.operation.name': 'chat',
          'gen_ai.request.model': request.model,
          'gen_ai.usage.input_tokens': routed.tokens.input,
          'gen_ai.usage.output_tokens': routed.tokens.output,
          'parley.calls': routed.calls.length,
        })
        if (routed.target !== null) span.setAttribute('gen_ai.response.model', routed.target)
        if (routed.reply.kind !== 'answer') {
          // Released as `trouble`, like the receipts.
          span.setAttribute('error.type', routed.reply.kind === 'error' ? 'trouble' : routed.reply.kind)
          span.setStatus({ code: SpanStatusCode.ERROR })
        }
        return routed
      }),
    close: () => router.close(),
  }
}
