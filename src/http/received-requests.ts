/** What the HTTP servers of all threads do alike with what they receive: timeouts, request IDs, the Host header. */
import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { type HttpError, invalid } from './errors.ts'

/** The format of request IDs that are accepted from callers: safe in a header and in a log. */
const REQUEST_ID = /^[\x21-\x7e]{1,128}$/
/** How often Node checks for requests past their timeout. */
export const CONNECTIONS_CHECK_MS = 1000
/** Longer than the usual idle limit of a proxy in front (60 s), so that the proxy closes first. */
export const KEEP_ALIVE_MS = 75_000

/** Keys whose callers are remembered. */
export const MAX_KEYS = 20_000
/** Of what never became a request, for the log and metrics. */
export const BROKEN_REQUEST = {
  method: 'none',
  route: 'none',
  ms: 0,
  from: null,
  account: null,
  jobIds: null,
}

const processId = randomBytes(9).toString('base64url')
let requests = 0

/**
 * The caller's own ID if it is valid. Otherwise a generated ID, with one half for the process and one for the request,
 * because a random number per request would cost far more.
 */
export function requestId({ headers }: Pick<IncomingMessage, 'headers'>): string {
  const given = headers['x-request-id']
  if (typeof given === 'string' && REQUEST_ID.test(given)) return given
  requests += 1
  return `${processId}-${requests.toString(36)}`
}

/**
 * RFC 9112 §3.2: HTTP/1.1 requires one Host header. If there are several, a proxy may have used a different one than this
 * server.
 */
export function hostError({
  httpVersion,
  rawHeaders,
}: Pick<IncomingMessage, 'httpVersion' | 'rawHeaders'>): HttpError | undefined {
  let hosts = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]
    if (name?.length === 4 && name.toLowerCase() === 'host') hosts += 1
  }
  if (hosts > 1) return invalid('Host: must be given exactly once')
  return hosts === 0 && httpVersion === '1.1' ? invalid('Host: is required') : undefined
}
