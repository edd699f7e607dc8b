/**
 * Sends one request over one connection, and reads as much of its response as is stored or needed to use the connection again.
 *
 * It implements undici's dispatch interface, because `request` creates a stream for every body, which alone takes a fifth of
 * the CPU time of a callback.
 */
import { type Dispatcher, errors } from 'undici'
import type { Clock } from '../clock.ts'
import { CONNECTION_CLOSED, type Connection, closeConnection } from './connection-pool.ts'
import { asError, codeOf } from './deadline.ts'

/** A POST without its URL. */
export interface OutgoingPost {
  /**
   * The headers in addition to those that undici adds. `content-type` is `application/json` and `user-agent` is `Parley` unless
   * they are given.
   */
  readonly headers: { readonly [name: string]: string }
  readonly body: string
}

export interface Answer {
  readonly status: number
  /** The delay in Retry-After, at most MAX_RETRY_AFTER_MS; null without the header. */
  readonly retryAfterMs: number | null
  /** The first KEPT_BODY_BYTES of the body as text. The body is never decompressed. */
  readonly bodyStart: string
}

export type ExchangeResult =
  /**
   * A status arrived. If `complete`, the whole body arrived as well and is within the limit, so the connection can be used
   * again.
   */
  | { readonly kind: 'answered'; readonly complete: boolean; readonly answer: Answer }
  /** The connection was closed before any of the response arrived. */
  | { readonly kind: 'connection closed' }
  | { readonly kind: 'failed'; readonly message: string }

/** The most bytes that are read of a response's body. */
export const MAX_ANSWER_BYTES = 65_536
export const KEPT_BODY_BYTES = 1024
export const MAX_RETRY_AFTER_MS = 86_400_000

/** Error codes that mean that the connection was closed. */
const CLOSED_CODES: ReadonlySet<string> = new Set([
  CONNECTION_CLOSED,
  'UND_ERR_SOCKET',
  'ECONNRESET',
  'EPIPE',
])

/** Sends the request. Never rejects. Closes the connection when `signal` aborts, or if the response is incomplete. */
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

/** Reads a response as it arrives. Once the status has arrived, an error only makes the response incomplete. */
class ResponseReader implements Dispatcher.DispatchHandler {
  /** Rejects if no status arrives. */
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
    // Statuses below 200 come before the final one.
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

  /** Returns the first KEPT_BODY_BYTES of the body as text. */
  bodyStart(): string {
    // With `stream`, a character that the limit cuts is left out. NUL is replaced, because not every database can store it.
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
 * Returns a list in which each name is followed by its value, because an object could have inherited properties. If a name is
 * given in several spellings, only the last one counts, because a receiver may reject repeated headers.
 */
function headersOf(request: OutgoingPost): string[] {
  const given = Object.entries(request.headers)
  const byName = new Map(given.map((header) => [header[0].toLowerCase(), header]))
  if (!byName.has('content-type')) byName.set('content-type', ['content-type', 'application/json'])
  if (!byName.has('user-agent')) byName.set('user-agent', ['user-agent', 'Parley'])
  return [...byName.values()].flat()
}

/** RFC 9110 §10.2.3: the value is a number of seconds, or a date. Any other value is ignored. */
function readRetryAfter(value: string | string[] | undefined, nowMs: number): number | null {
  const text = (Array.isArray(value) ? value[0] : value)?.trim() ?? ''
  const ms = /^\d+$/.test(text)
    ? Number(text) * 1000
    : text.endsWith('GMT')
      ? Date.parse(text) - nowMs
      : Number.NaN
  return Number.isNaN(ms) ? null : Math.min(Math.max(ms, 0), MAX_RETRY_AFTER_MS)
}
