/**
 * Sends one request over one connection and reads as much of its response as is kept or needed to reuse the connection.
 *
 * It implements undici's dispatch interface instead of using `request`, which creates a stream for every body: that alone takes
 * a fifth of the CPU time of a callback.
 */
import { type Dispatcher, errors } from 'undici'
import type { Clock } from '../clock.ts'
import { CONNECTION_CLOSED, type Connection, closeConnection } from './connection-pool.ts'
import { asError, codeOf } from './deadline.ts'

/** The request without its URL. */
export interface OutgoingPost {
  /** All headers except the standard ones. The defaults of `content-type` and `user-agent` are application/json and ours. */
  readonly headers: { readonly [name: string]: string }
  readonly body: string
}

export interface Answer {
  readonly status: number
  /** The delay that the receiver asks for, at most MAX_RETRY_AFTER_MS; null if it asks for none. */
  readonly retryAfterMs: number | null
  /** The first KEPT_BODY_BYTES of the response body as text; never decompressed. */
  readonly bodyStart: string
}

export type ExchangeResult =
  /** A status arrived. If `complete`, the body arrived within the limit, too, and the connection can be reused. */
  | { readonly kind: 'answered'; readonly complete: boolean; readonly answer: Answer }
  /** The connection was closed before any of the response arrived. */
  | { readonly kind: 'connection closed' }
  | { readonly kind: 'failed'; readonly message: string }

/** Nothing of a response is read beyond this size. */
export const MAX_ANSWER_BYTES = 65_536
export const KEPT_BODY_BYTES = 1024
export const MAX_RETRY_AFTER_MS = 86_400_000

/** The error codes of a closed connection. */
const CLOSED_CODES: ReadonlySet<string> = new Set([
  CONNECTION_CLOSED,
  'UND_ERR_SOCKET',
  'ECONNRESET',
  'EPIPE',
])

/** Never rejects. Closes the connection as soon as `signal` aborts, and if the response is incomplete. */
export async function exchange(
  connection: Connection,
  url: URL,
  request: OutgoingPost,
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
    return { kind: 'answered', complete, answer: { status, retryAfterMs, bodyStart: response.bodyStart() } }
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
  /** Whether the whole body arrived and is within the limit. */
  readonly complete: boolean
}

/** Reads a response as it arrives. If an error follows the status, the status still counts. */
class ResponseReader implements Dispatcher.DispatchHandler {
  /** Rejects if no status arrived. */
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

  /** undici requires this method. */
  onRequestStart(): void {}

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: ResponseHead['headers'],
  ): void {
    // 1xx responses precede the final one.
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

  /** The first KEPT_BODY_BYTES as text. */
  bodyStart(): string {
    // The decoder streams, so that a character split by the limit is left out. Not every database can store NUL.
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
 * Returns names and values in turn, so that no name can be mistaken for an inherited property. Of several spellings of a name, the
 * last counts, because a receiver may reject a header that is sent twice.
 */
function headersOf(request: OutgoingPost): string[] {
  const given = Object.entries(request.headers)
  const byName = new Map(given.map((header) => [header[0].toLowerCase(), header]))
  if (!byName.has('content-type')) byName.set('content-type', ['content-type', 'application/json'])
  if (!byName.has('user-agent')) byName.set('user-agent', ['user-agent', 'Parley'])
  return [...byName.values()].flat()
}

/** RFC 9110 §10.2.3: the value is in seconds, or a date. Anything else is ignored. */
function readRetryAfter(value: string | string[] | undefined, nowMs: number): number | null {
  const text = (Array.isArray(value) ? value[0] : value)?.trim() ?? ''
  const ms = /^\d+$/.test(text)
    ? Number(text) * 1000
    : text.endsWith('GMT')
      ? Date.parse(text) - nowMs
      : Number.NaN
  return Number.isNaN(ms) ? null : Math.min(Math.max(ms, 0), MAX_RETRY_AFTER_MS)
}
