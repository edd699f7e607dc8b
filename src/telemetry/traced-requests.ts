/**
 * Records a server span for each request that creates jobs. It continues the trace of the W3C `traceparent` header, which jobs
 * store and requests carry.
 */
import {
  type Context,
  context,
  isSpanContextValid,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api'
import type { FastifyInstance, FastifyRequest } from 'fastify'

const tracer = trace.getTracer('parley')
const CREATES: ReadonlySet<string | undefined> = new Set([
  '/api/v1/messages',
  '/api/v1/messages/batches',
  '/v1/chat/completions',
  '/v1/responses',
])

/** Must be called before the routes are added, because hooks apply only to later ones. */
export function traceCreates(app: FastifyInstance): void {
  const open = new WeakMap<FastifyRequest, { readonly span: Span; readonly inside: Context }>()
  app.addHook('onRequest', (request, _reply, done) => {
    const { url } = request.routeOptions
    if (request.method === 'POST' && CREATES.has(url)) {
      const { traceparent } = request.headers
      // An SDK that the operator loads may already have begun a span for the request.
      const isBegun = trace.getActiveSpan() !== undefined
      const given = isBegun || typeof traceparent !== 'string' ? null : contextOf(traceparent)
      const parent = given ?? context.active()
      const attributes = { 'http.request.method': 'POST', 'http.route': url }
      const span = tracer.startSpan(`POST ${url}`, { kind: SpanKind.SERVER, attributes }, parent)
      open.set(request, { span, inside: trace.setSpan(parent, span) })
    }
    done()
  })
  // An earlier hook would lose the context, because the body is read after it.
  app.addHook('preHandler', (request, _reply, done) => {
    const traced = open.get(request)
    if (traced === undefined) done()
    else context.with(traced.inside, done)
  })
  app.addHook('onResponse', (request, reply, done) => {
    const span = open.get(request)?.span
    span?.setAttribute('http.response.status_code', reply.statusCode)
    if (reply.statusCode >= 500) span?.setStatus({ code: SpanStatusCode.ERROR })
    span?.end()
    done()
  })
}

/** A later version of the format may have more parts, which are ignored. */
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:$|-)/
const SAMPLED = 1

/** Returns the active span as a `traceparent`; null if there is none. */
export function activeTraceparent(): string | null {
  const context = trace.getActiveSpan()?.spanContext()
  if (!context || !isSpanContextValid(context)) return null
  return `00-${context.traceId}-${context.spanId}-0${context.traceFlags & SAMPLED}`
}

/** Returns the context of a span that continues this one; null if the text is not a valid `traceparent`. */
export function contextOf(traceparent: string): Context | null {
  const [, traceId = '', spanId = '', flags = ''] = TRACEPARENT.exec(traceparent) ?? []
  const traceFlags = Number.parseInt(flags, 16) & SAMPLED
  const parent = { traceId, spanId, traceFlags, isRemote: true }
  return isSpanContextValid(parent) ? trace.setSpanContext(ROOT_CONTEXT, parent) : null
}
