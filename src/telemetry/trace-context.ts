/** Converts between a span and the W3C `traceparent` header, which jobs store and requests carry. */
import { type Context, isSpanContextValid, ROOT_CONTEXT, trace } from '@opentelemetry/api'

/** A later version of the format may have more parts, which are ignored. */
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:$|-)/
const SAMPLED = 1

/** Returns the active span; null if there is none. */
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
