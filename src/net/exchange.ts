/**
 * One request and its answer upon one connection. Of the answer no more is read than is kept or needed to use the
 * connection again.
 */
import { errors } from 'undici'
import type { Clock } from '../clock.ts'
import { type Connection, endConnection, GONE } from './connection-pool.ts'
import { asError, codeOf } from './deadline.ts'

/** What is sent. */
export interface OutgoingPost {
  /** All headers but the standard ones; `content-type` is application/json and `user-agent` is ours unless given. */
  readonly headers: { readonly [name: string]: string }
  readonly body: string
}

export interface Answer {
  readonly status: number
  /** How long the receiver asks to be left alone, at most MAX_RETRY_AFTER_MS; null where it does not. */
  readonly retryAfterMs: number | null
  /** The first KEPT_BODY_BYTES of the answer's body as text, as they came: compressed if it was compressed. */
  readonly bodyStart: string
}

export type Exchanged =
  /** A status came. When `whole` its body did too, within the cap, and the connection may be used again. */
  | { readonly kind: 'answered'; readonly whole: boolean; readonly answer: Answer }
  /** The connection ended before any of the answer came. */
  | { readonly kind: 'cut off' }
  | { readonly kind: 'failed'; readonly message: string }

/** When this much of an answer has been read, the rest is not. */
export const MAX_ANSWER_BYTES = 65_536
export const KEPT_BODY_BYTES = 1024
export const MAX_RETRY_AFTER_MS = 86_400_000

/** How a connection shows that it has ended. */
const CUT_OFF_CODES: ReadonlySet<string> = new Set([GONE, 'UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'])

/** Never rejects. Unless the answer came whole, and as soon as `signal` aborts, the connection is ended. */
export async function exchange(
  connection: Connection,
  url: URL,
  request: OutgoingPost,
  signal: AbortSignal,
  clock: Clock,
): Promise<Exchanged> {
  const stop = () => void endConnection(connection, asError(signal.reason))
  signal.addEventListener('abort', stop, { once: true })
  try {
    signal.throwIfAborted()
    const response = await connection.client.request({
      method: 'POST',
      path: url.pathname + url.search,
      headers: headersOf(request),
      body: request.body,
    })
    const { bodyStart, whole } = await readStart(response.body)
    if (!whole) void endConnection(connection)
    const retryAfterMs = readRetryAfter(response.headers['retry-after'], clock.nowMs())
    return { kind: 'answered', whole, answer: { status: response.statusCode, retryAfterMs, bodyStart } }
  } catch (error) {
    void endConnection(connection)
    if (!signal.aborted && CUT_OFF_CODES.has(codeOf(error))) return { kind: 'cut off' }
    return { kind: 'failed', message: describe(signal.aborted ? signal.reason : error) }
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

function describe(error: unknown): string {
  const { message } = asError(error)
  return error instanceof errors.HTTPParserError
    ? `the receiver did not answer in HTTP/1.1: ${message}`
    : message
}

/** As names and values in turn, so that no name can be mistaken for something that objects have by nature. */
function headersOf(request: OutgoingPost): string[] {
  const entries = Object.entries(request.headers)
  const given = new Set(entries.map(([name]) => name.toLowerCase()))
  if (!given.has('content-type')) entries.push(['content-type', 'application/json'])
  if (!given.has('user-agent')) entries.push(['user-agent', 'Parley'])
  return entries.flat()
}

/** Reads to the end or to the cap. A body that breaks off does not undo the status that came before it. */
async function readStart(body: AsyncIterable<Buffer>): Promise<{ bodyStart: string; whole: boolean }> {
  const start: Buffer[] = []
  let bytes = 0
  let whole = false
  try {
    for await (const chunk of body) {
      if (bytes < KEPT_BODY_BYTES) start.push(chunk.subarray(0, KEPT_BODY_BYTES - bytes))
      bytes += chunk.length
      if (bytes > MAX_ANSWER_BYTES) break
    }
    whole = bytes <= MAX_ANSWER_BYTES
  } catch {
    whole = false
  }
  // As a stream, so that a character cut in two by the limit is left out; NUL would not go into every database.
  const text = new TextDecoder().decode(Buffer.concat(start), { stream: true })
  return { bodyStart: text.replaceAll('\0', '\ufffd'), whole }
}

/** RFC 9110 §10.2.3: seconds, or a date. Anything else is as good as nothing. */
function readRetryAfter(value: string | string[] | undefined, nowMs: number): number | null {
  const text = (Array.isArray(value) ? value[0] : value)?.trim() ?? ''
  const ms = /^\d+$/.test(text)
    ? Number(text) * 1000
    : text.endsWith('GMT')
      ? Date.parse(text) - nowMs
      : Number.NaN
  return Number.isNaN(ms) ? null : Math.min(Math.max(ms, 0), MAX_RETRY_AFTER_MS)
}
