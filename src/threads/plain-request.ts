/** Which requests a request thread answers itself: creates with a small body and reads, without anything unusual about them. */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { hostError } from '../http/received-requests.ts'
import { isJobId } from '../job/job-id.ts'

/** Larger bodies are read by the main thread, within its byte budget, and parsed by the CPU pool. */
const PLAIN_BODY_BYTES = 64 * 1024

export const SINGLE_ROUTE = '/api/v1/messages'
export const BATCH_ROUTE = '/api/v1/messages/batches'
export const READ_ROUTE = '/api/v1/messages/:jobId'

export type PlainKind = 'single' | 'batch' | { readonly jobId: string }

const JSON_TYPES: ReadonlySet<string | undefined> = new Set([
  'application/json',
  'application/json; charset=utf-8',
  'application/json;charset=utf-8',
])
const READ_PREFIX = '/api/v1/messages/'
/** What any of these changes about a request, the HTTP server of the main thread knows. */
const UNUSUAL = [
  'origin',
  'expect',
  'content-encoding',
  'transfer-encoding',
  'idempotency-key',
  'upgrade',
] as const

/** The most bytes of a body, by route. */
export interface PlainLimits {
  readonly single: number
  readonly batch: number
}

/** @param routes what the routes accept */
export function plainLimits(routes: PlainLimits): PlainLimits {
  const { single, batch } = routes
  return { single: Math.min(single, PLAIN_BODY_BYTES), batch: Math.min(batch, PLAIN_BODY_BYTES) }
}

/** Null for a request that is to be forwarded. */
export function plainKind(request: IncomingMessage, limits: PlainLimits): PlainKind | null {
  const { headers, method, url = '' } = request
  for (const name of UNUSUAL) if (headers[name] !== undefined) return null
  if (request.httpVersion !== '1.1' || typeof headers['x-api-key'] !== 'string') return null
  if (hostError(request)) return null
  if (method === 'GET') return readOf(url, headers)
  if (method !== 'POST' || !JSON_TYPES.has(headers['content-type'])) return null
  const length = Number(headers['content-length'] ?? 0)
  const kind = url === SINGLE_ROUTE ? 'single' : url === BATCH_ROUTE ? 'batch' : null
  return kind !== null && length > 0 && length <= limits[kind] ? kind : null
}

function readOf(url: string, headers: IncomingHttpHeaders): PlainKind | null {
  if (!url.startsWith(READ_PREFIX) || headers['content-length'] !== undefined) return null
  const jobId = url.slice(READ_PREFIX.length)
  return isJobId(jobId) ? { jobId } : null
}
