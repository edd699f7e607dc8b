/**
 * One request of `parley check` to a model server, with its time limits, and the diagnosis of a port that does not respond.
 * Nothing here is billed: no completion request here can succeed.
 */
import { isIP } from 'node:net'
import { connect, type TLSSocket } from 'node:tls'
import { Agent, request } from 'undici'
import type { UpstreamAccess } from '../../config/upstream-access.ts'
import { connectionFault } from '../../upstreams/connection-fault.ts'
import { requestHeaders, trustedCertificates } from '../../upstreams/request-head.ts'

/** Time limit for a connection, for the start of a response, and for pauses within it. */
export const PROBE_TIMEOUT_MS = 5_000
/** The longest known list of models, that of OpenRouter, is smaller than a megabyte. */
const MAX_BODY_BYTES = 8 * 1024 * 1024

export interface Response {
  readonly kind: 'response'
  readonly status: number
  /** The unchanged body, and the parsed body; undefined if it is not JSON. */
  readonly text: string
  readonly json: unknown
  /** The target of a redirect. It is not followed, because the calls of jobs do not follow redirects either. */
  readonly location: string | null
  readonly ms: number
}

export interface Failure {
  readonly kind: 'failed'
  /** What failed: the name, TLS, the connection, or the response, which is missing or not HTTP. */
  readonly fault: 'dns' | 'tls' | 'connection' | 'timeout' | 'protocol'
  /** The error code of the socket, the resolver or OpenSSL. */
  readonly code: string
}

export type Probed = Response | Failure

export interface ProbeOptions {
  readonly access: UpstreamAccess
  readonly timeoutMs: number
  /** The `user-agent`, which distinguishes these requests from the calls of jobs in the log of a server. */
  readonly agent: 'parley-check' | 'parley-start'
  /** The body of a POST, as JSON; without one it is a GET. */
  readonly body?: unknown
  /** Ends the request early, as a failure. */
  readonly signal?: AbortSignal
  /** Does not check certificates, and sends neither key nor headers: only finds out which protocol the port speaks. */
  readonly anonymous?: true
}

/** Never rejects. */
export async function probe(url: URL, options: ProbeOptions): Promise<Probed> {
  const { access, timeoutMs, agent, body, signal, anonymous } = options
  const dispatcher = new Agent({
    allowH2: false,
    connect: {
      timeout: timeoutMs,
      ...(anonymous ? { rejectUnauthorized: false } : trustedCertificates(access.ca)),
    },
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
  })
  const limit = AbortSignal.timeout(3 * timeoutMs)
  const startedAtMs = performance.now()
  try {
    const response = await request(url, {
      dispatcher,
      method: body === undefined ? 'GET' : 'POST',
      headers: anonymous
        ? []
        : requestHeaders('', { ...access, headers: { 'user-agent': agent, ...access.headers } }),
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: signal === undefined ? limit : AbortSignal.any([limit, signal]),
    })
    const text = await readText(response.body)
    const ms = performance.now() - startedAtMs
    const { location } = response.headers
    return {
      kind: 'response',
      status: response.statusCode,
      text,
      json: parsed(text),
      location: typeof location === 'string' ? location : null,
      ms,
    }
  } catch (error) {
    return failureOf(error)
  } finally {
    await dispatcher.destroy()
  }
}

/** Whether a TLS handshake succeeds there, with any certificate. */
export function speaksTls({ hostname, port, protocol }: URL, timeoutMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const host = hostname.replace(/^\[|\]$/g, '')
    const socket: TLSSocket = connect({
      host,
      port: Number(port || (protocol === 'https:' ? 443 : 80)),
      rejectUnauthorized: false,
      ...(isIP(host) === 0 && { servername: host }),
      timeout: timeoutMs,
    })
    const end = (speaks: boolean) => {
      socket.destroy()
      resolve(speaks)
    }
    socket.once('secureConnect', () => end(true))
    socket.once('error', () => end(false))
    socket.once('timeout', () => end(false))
    socket.once('close', () => end(false))
  })
}

async function readText(body: AsyncIterable<Buffer>): Promise<string> {
  const pieces: Buffer[] = []
  let bytes = 0
  for await (const piece of body) {
    pieces.push(piece)
    bytes += piece.length
    if (bytes > MAX_BODY_BYTES) break
  }
  return Buffer.concat(pieces).toString('utf8')
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function failureOf(error: unknown): Failure {
  const { code: given, name } = error as { readonly code?: unknown; readonly name?: unknown }
  const code = typeof given === 'string' ? given : String(name)
  if (code === 'UND_ERR_CONNECT_TIMEOUT' || code === 'ETIMEDOUT') {
    return { kind: 'failed', fault: 'connection', code }
  }
  if (/TIMEOUT|TimeoutError|AbortError/.test(code) && connectionFault(code) !== 'dns') {
    return { kind: 'failed', fault: 'timeout', code }
  }
  if (/^HPE_|^HTTPParserError$/.test(code)) return { kind: 'failed', fault: 'protocol', code }
  return { kind: 'failed', fault: connectionFault(code), code }
}
