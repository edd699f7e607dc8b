/**
 * Sends one callback: a POST to an address that a caller chose, so with a guard, deadlines and a cap on what is read.
 * Nothing is followed, decompressed or retried here; whether an answer is a success is for the courier to say.
 */
import { errors } from 'undici'
import { type Clock, systemClock } from '../clock.ts'
import { type AddressRules, checkCallbackUrl } from './address-guard.ts'
import { asError, codeOf, type Deadline, startDeadline } from './deadline.ts'
import { dial, type OpenSocket, openSocket } from './dial.ts'
import { type Connection, createKeptConnections, endConnection, GONE } from './kept-connections.ts'
import { createResolver, type ResolveName } from './resolve-name.ts'

export interface PosterOptions {
  readonly rules: AddressRules
  /** The deadline of one POST, from look-up to the last byte that is read: `callbacks.timeout_seconds`. */
  readonly timeoutMs: number
  readonly clock?: Clock
  readonly resolve?: ResolveName
  readonly open?: OpenSocket
}

export interface PostRequest {
  readonly url: string
  /** All headers but the standard ones; `content-type` is application/json and `user-agent` is ours unless given. */
  readonly headers: { readonly [name: string]: string }
  readonly body: string
  /** Calls the POST off. */
  readonly signal?: AbortSignal
}

/** `ms` is how long it took. `message` says what happened, for people. */
export type PostResult =
  | {
      /** A status came. The answer may have been cut after it: by us, by the receiver or by the deadline. */
      readonly kind: 'answered'
      readonly status: number
      /** How long the receiver asks to be left alone, at most MAX_RETRY_AFTER_MS; null where it does not. */
      readonly retryAfterMs: number | null
      /** The first KEPT_BODY_BYTES of the answer's body as text, as they came: compressed if it was compressed. */
      readonly bodyStart: string
      readonly ms: number
    }
  /** The rules forbid it. Nothing was sent. */
  | { readonly kind: 'refused'; readonly message: string; readonly ms: number }
  /** No answer came. The receiver may have got the callback nevertheless. */
  | { readonly kind: 'failed'; readonly message: string; readonly ms: number }

export interface Poster {
  /** Never rejects, and when it has resolved holds nothing but, perhaps, a connection for the next POST. */
  post(request: PostRequest): Promise<PostResult>
  /** Calls off what is under way and ends every connection. Later POSTs fail. */
  close(): Promise<void>
}

/** Of the whole deadline, what look-up, TCP and TLS may take together. */
export const CONNECT_MS = 5000
/** When this much of an answer has been read, the rest is not. */
export const MAX_ANSWER_BYTES = 65_536
export const KEPT_BODY_BYTES = 1024
export const MAX_RETRY_AFTER_MS = 86_400_000

type Untimed<T> = T extends unknown ? Omit<T, 'ms'> : never
type Result = Untimed<PostResult>

export function createPoster(options: PosterOptions): Poster {
  const clock = options.clock ?? systemClock
  const resolve = options.resolve ?? createResolver({ systemNames: options.rules.allow.length > 0 })
  const dialOptions = {
    rules: options.rules,
    clock,
    resolve,
    open: options.open ?? openSocket,
    connectMs: Math.min(CONNECT_MS, options.timeoutMs),
  }
  const kept = createKeptConnections(clock)
  const underWay = new Set<Deadline>()
  let closed = false

  async function attempt(request: PostRequest, signal: AbortSignal): Promise<Result> {
    // Checked again, because the settings may have changed since the job was created.
    const checked = checkCallbackUrl(request.url, options.rules)
    if (!checked.ok) return { kind: 'refused', message: `the callback URL ${checked.rule}` }
    const url = new URL(checked.url)
    const connection = kept.take(url.origin)
    if (connection !== null) {
      const exchanged = await exchange(connection, url, request, signal)
      if (exchanged !== 'stale') return exchanged
    }
    const dialed = await dial(url, dialOptions, signal)
    if (dialed.kind !== 'connected') return dialed
    const fresh = kept.open(url.origin, dialed.socket)
    const exchanged = await exchange(fresh, url, request, signal)
    return exchanged === 'stale' ? { kind: 'failed', message: CUT_OFF } : exchanged
  }

  /** One request and its answer. 'stale' says that the connection ended before any of the answer came. */
  async function exchange(
    connection: Connection,
    url: URL,
    request: PostRequest,
    signal: AbortSignal,
  ): Promise<Result | 'stale'> {
    const stop = () => void endConnection(connection, asError(signal.reason))
    signal.addEventListener('abort', stop, { once: true })
    try {
      signal.throwIfAborted()
      const answer = await connection.client.request({
        method: 'POST',
        path: url.pathname + url.search,
        headers: headersOf(request),
        body: request.body,
      })
      const { bodyStart, whole } = await readStart(answer.body)
      if (whole) kept.give(connection)
      else void endConnection(connection)
      const retryAfterMs = readRetryAfter(answer.headers['retry-after'], clock.nowMs())
      return { kind: 'answered', status: answer.statusCode, retryAfterMs, bodyStart }
    } catch (error) {
      void endConnection(connection)
      if (!signal.aborted && CUT_OFF_CODES.has(codeOf(error))) return 'stale'
      return { kind: 'failed', message: describe(signal.aborted ? signal.reason : error) }
    } finally {
      signal.removeEventListener('abort', stop)
    }
  }

  async function post(request: PostRequest): Promise<PostResult> {
    const startedAtMs = clock.steadyMs()
    const tookMs = () => Math.round(clock.steadyMs() - startedAtMs)
    const message = `no answer within ${options.timeoutMs / 1000} s`
    const deadline = startDeadline(clock, options.timeoutMs, message, request.signal)
    underWay.add(deadline)
    if (closed) deadline.stop(new Error(CLOSED))
    try {
      const result = await attempt(request, deadline.signal)
      return { ...result, ms: tookMs() }
    } catch (error) {
      return { kind: 'failed', message: describe(error), ms: tookMs() }
    } finally {
      underWay.delete(deadline)
      deadline.end()
    }
  }

  async function close(): Promise<void> {
    closed = true
    for (const deadline of underWay) deadline.stop(new Error(CLOSED))
    await kept.close()
  }

  return { post, close }
}

const CLOSED = 'the server is stopping'
const CUT_OFF = 'the receiver closed the connection before it answered'

/**
 * How a connection shows that it ended. Upon a kept one that is no news about the receiver, which may close it at any time,
 * so the callback is sent once more upon a new one; receivers tolerate duplicates (SPEC §6, 4).
 */
const CUT_OFF_CODES: ReadonlySet<string> = new Set([GONE, 'UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'])

function describe(error: unknown): string {
  const { message } = asError(error)
  return error instanceof errors.HTTPParserError
    ? `the receiver did not answer in HTTP/1.1: ${message}`
    : message
}

/** As names and values in turn, so that no name can be mistaken for something that objects have by nature. */
function headersOf(request: PostRequest): string[] {
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
