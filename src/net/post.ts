/**
 * Sends one callback: a POST to a caller's URL. The POST has a deadline, connects only to permitted addresses, and reads a
 * limited part of the response. It does not follow redirects or decompress. It is repeated only if an idle connection turns out
 * to be closed.
 */
import { type Dispatcher, errors } from 'undici'
import { type Clock, systemClock } from '../clock.ts'
import {
  CONNECTION_CLOSED,
  type Connection,
  closeConnection,
  createConnectionPool,
  type IdleLimits,
} from './connection-pool.ts'
import { asError, codeOf, type Deadline, startDeadline } from './deadline.ts'
import {
  createResolver,
  guardedConnect,
  type OpenSocket,
  openSocket,
  type ResolveName,
} from './guarded-connect.ts'
import { type AddressRules, checkCallbackUrl } from './ssrf-guard.ts'

export interface PosterOptions {
  readonly rules: AddressRules
  /** The deadline covers everything from the lookup to the last byte read (`callbacks.timeout_seconds`). */
  readonly timeoutMs: number
  /** If this permits fewer idle connections than are in use at once, connections are opened again and again. */
  readonly idle: IdleLimits
  readonly clock?: Clock
  readonly resolve?: ResolveName
  readonly open?: OpenSocket
}

export interface PostRequest {
  readonly url: string
  /** `content-type` defaults to `application/json`, and `user-agent` to `Parley`. */
  readonly headers: { readonly [name: string]: string }
  readonly body: string
  readonly signal?: AbortSignal
}

/** `message` describes the failure for people. */
export type PostResult =
  /** A status arrived. The limit, the receiver or the deadline may have truncated the body. */
  | {
      readonly kind: 'answered'
      readonly ms: number
      readonly status: number
      /** The receiver's Retry-After, but at most MAX_RETRY_AFTER_MS; null if it is absent or malformed. */
      readonly retryAfterMs: number | null
      /** At most the first KEPT_BODY_BYTES of the body, which is never decompressed. */
      readonly bodyStart: string
    }
  /** The rules forbid the URL or its address. Nothing was sent. */
  | { readonly kind: 'refused'; readonly message: string; readonly ms: number }
  /** No response arrived, but the receiver may have received the callback. */
  | { readonly kind: 'failed'; readonly message: string; readonly ms: number }

export interface Poster {
  /** Never rejects. When the promise resolves, nothing of the POST is left except perhaps an idle connection. */
  post(request: PostRequest): Promise<PostResult>
  /** Aborts POSTs in progress, and closes all connections. Later POSTs fail. */
  close(): Promise<void>
}

/** Lookup, TCP and TLS together may take this part of the deadline. */
export const CONNECT_MS = 5000

type Untimed<T> = T extends unknown ? Omit<T, 'ms'> : never
type UntimedResult = Untimed<PostResult>

export function createPoster(options: PosterOptions): Poster {
  const clock = options.clock ?? systemClock
  const connectOptions = {
    rules: options.rules,
    clock,
    resolve: options.resolve ?? createResolver({ systemNames: options.rules.allow.length > 0 }),
    open: options.open ?? openSocket,
    timeoutMs: Math.min(CONNECT_MS, options.timeoutMs),
  }
  const pool = createConnectionPool(clock, options.idle)
  const inProgress = new Set<Deadline>()
  let closed = false

  async function attempt(request: PostRequest, signal: AbortSignal): Promise<UntimedResult> {
    // The settings may have changed since the URL was checked at the creation of the job.
    const checked = checkCallbackUrl(request.url, options.rules)
    if (!checked.ok) return { kind: 'refused', message: `the callback URL ${checked.rule}` }
    const url = new URL(checked.url)
    const idle = pool.acquire(url.origin)
    if (idle !== null) {
      const result = await send(idle, url, request, signal)
      // A receiver may close an idle connection at any time, which is not a failure. So the POST is repeated once on a new
      // connection. It may arrive twice, which receivers must tolerate (SPEC §6, 4).
      if (result.kind !== 'connection closed') return result
    }
    const connected = await guardedConnect(url, connectOptions, signal)
    if (connected.kind !== 'connected') return connected
    const result = await send(pool.open(url.origin, connected.socket), url, request, signal)
    return result.kind === 'connection closed' ? { kind: 'failed', message: CONNECTION_LOST } : result
  }

  async function send(connection: Connection, url: URL, request: PostRequest, signal: AbortSignal) {
    const result = await exchange(connection, url, request, signal, clock)
    if (result.kind !== 'answered') return result
    const { complete, ...answered } = result
    if (complete) pool.release(connection)
    return answered
  }

  async function post(request: PostRequest): Promise<PostResult> {
    const startedAtMs = clock.steadyMs()
    const elapsedMs = () => Math.round(clock.steadyMs() - startedAtMs)
    const message = `no response within ${options.timeoutMs / 1000} s`
    const deadline = startDeadline(clock, options.timeoutMs, message, request.signal)
    inProgress.add(deadline)
    if (closed) deadline.abort(new Error(STOPPING))
    try {
      const result = await attempt(request, deadline.signal)
      return { ...result, ms: elapsedMs() }
    } catch (error) {
      return { kind: 'failed', message: asError(error).message, ms: elapsedMs() }
    } finally {
      inProgress.delete(deadline)
      deadline.clear()
    }
  }

  async function close(): Promise<void> {
    closed = true
    for (const deadline of inProgress) deadline.abort(new Error(STOPPING))
    await pool.close()
  }

  return { post, close }
}

const STOPPING = 'the server is stopping'
const CONNECTION_LOST = 'the receiver closed the connection before it responded'

type ExchangeResult =
  /** A status arrived. If `complete`, the whole body arrived within the limit, and the connection can be used again. */
  | (Extract<UntimedResult, { kind: 'answered' }> & { readonly complete: boolean })
  /** The connection was closed before a status arrived. */
  | { readonly kind: 'connection closed' }
  | { readonly kind: 'failed'; readonly message: string }

/** A body is read up to this length. If it is longer, the connection is closed. */
export const MAX_ANSWER_BYTES = 65_536
export const KEPT_BODY_BYTES = 1024
export const MAX_RETRY_AFTER_MS = 86_400_000

const CLOSED_CODES: ReadonlySet<string> = new Set([
  CONNECTION_CLOSED,
  'UND_ERR_SOCKET',
  'ECONNRESET',
  'EPIPE',
])

/**
 * Sends the request over the connection. Never rejects. Closes the connection when `signal` aborts, after an error, or if the
 * response is incomplete.
 *
 * The response is read by undici's dispatch interface, because undici's `request` creates a stream for every body, which takes
 * a fifth of the CPU time of a callback.
 */
async function exchange(
  connection: Connection,
  url: URL,
  request: PostRequest,
  signal: AbortSignal,
  clock: Clock,
): Promise<ExchangeResult> {
  const abort = () => void closeConnection(connection, asError(signal.reason))
  signal.addEventListener('abort', abort, { once: true })
  try {
    signal.throwIfAborted()
    const response = new ResponseReader()
    connection.client.dispatch(
      { method: 'POST', path: url.pathname + url.search, headers: headersOf(request), body: request.body },
      response,
    )
    const { status, headers, complete } = await response.ended
    if (!complete) void closeConnection(connection)
    const retryAfterMs = readRetryAfter(headers['retry-after'], clock.nowMs())
    return { kind: 'answered', complete, status, retryAfterMs, bodyStart: response.bodyStart() }
  } catch (error) {
    void closeConnection(connection)
    if (!signal.aborted && CLOSED_CODES.has(codeOf(error))) return { kind: 'connection closed' }
    return { kind: 'failed', message: describe(signal.aborted ? signal.reason : error) }
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

interface ResponseHead {
  readonly status: number
  readonly headers: { readonly [name: string]: string | string[] | undefined }
}

interface ResponseEnd extends ResponseHead {
  readonly complete: boolean
}

/** Reads a response as it arrives. Once the status has arrived, an error only makes the response incomplete. */
class ResponseReader implements Dispatcher.DispatchHandler {
  readonly ended: Promise<ResponseEnd>
  readonly #resolve: (end: ResponseEnd) => void
  readonly #reject: (error: Error) => void
  #head: ResponseHead | null = null
  readonly #start: Buffer[] = []
  #bytes = 0

  constructor() {
    const { promise, resolve, reject } = Promise.withResolvers<ResponseEnd>()
    this.ended = promise
    this.#resolve = resolve
    this.#reject = reject
  }

  onRequestStart(): void {}

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: ResponseHead['headers'],
  ): void {
    // Responses with a status below 200 precede the final one.
    if (status >= 200) this.#head = { status, headers }
  }

  onResponseData(_controller: Dispatcher.DispatchController, piece: Buffer): void {
    if (this.#bytes < KEPT_BODY_BYTES) this.#start.push(piece.subarray(0, KEPT_BODY_BYTES - this.#bytes))
    this.#bytes += piece.length
    if (this.#bytes > MAX_ANSWER_BYTES) this.#end(false)
  }

  onResponseEnd(): void {
    this.#end(true)
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: Error): void {
    this.#end(false, error)
  }

  bodyStart(): string {
    // With `stream`, the decoder drops a character that the limit cuts. NUL is replaced, because Postgres cannot store it.
    const text = new TextDecoder().decode(Buffer.concat(this.#start), { stream: true })
    return text.replaceAll('\0', '\ufffd')
  }

  #end(complete: boolean, error?: Error): void {
    if (this.#head === null)
      this.#reject(error ?? new Error('the receiver closed the connection without a status'))
    else this.#resolve({ ...this.#head, complete })
  }
}

function describe(error: unknown): string {
  const { message } = asError(error)
  return error instanceof errors.HTTPParserError
    ? `the receiver did not respond with HTTP/1.1: ${message}`
    : message
}

/**
 * Returns names and values alternately, because an object could have inherited properties. If a name is given in several
 * spellings, only the last one counts, because a receiver may reject repeated headers.
 */
function headersOf(request: PostRequest): string[] {
  const given = Object.entries(request.headers)
  const byName = new Map(given.map((header) => [header[0].toLowerCase(), header]))
  if (!byName.has('content-type')) byName.set('content-type', ['content-type', 'application/json'])
  if (!byName.has('user-agent')) byName.set('user-agent', ['user-agent', 'Parley'])
  return [...byName.values()].flat()
}

/** The value is a number of seconds or a date (RFC 9110 §10.2.3). Any other value is ignored. */
function readRetryAfter(value: string | string[] | undefined, nowMs: number): number | null {
  const text = (Array.isArray(value) ? value[0] : value)?.trim() ?? ''
  const ms = /^\d+$/.test(text)
    ? Number(text) * 1000
    : text.endsWith('GMT')
      ? Date.parse(text) - nowMs
      : Number.NaN
  return Number.isNaN(ms) ? null : Math.min(Math.max(ms, 0), MAX_RETRY_AFTER_MS)
}
