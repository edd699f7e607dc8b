/**
 * Sends one callback: a POST to a caller's URL. It guards against request forgery, has timeouts and limits what it reads. It
 * does not follow redirects, decompress or retry. The callback dispatcher decides which responses count as success.
 */
import { type Clock, systemClock } from '../clock.ts'
import { type Connection, createConnectionPool, type IdleLimits } from './connection-pool.ts'
import { asError, type Deadline, startDeadline } from './deadline.ts'
import { type Answer, exchange, type OutgoingPost } from './exchange.ts'
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
  /** The deadline of a POST in milliseconds, from the lookup to the last byte read: `callbacks.timeout_seconds`. */
  readonly timeoutMs: number
  /** There should be as many idle connections as are in use at once; otherwise, connections are opened again and again. */
  readonly idle: IdleLimits
  readonly clock?: Clock
  readonly resolve?: ResolveName
  readonly open?: OpenSocket
}

export interface PostRequest extends OutgoingPost {
  readonly url: string
  readonly signal?: AbortSignal
}

/** `ms` is the duration. `message` describes the failure for people. */
export type PostResult =
  /** A status arrived. The body may be truncated by the limit, by the receiver or by the deadline. */
  | ({ readonly kind: 'answered'; readonly ms: number } & Answer)
  /** The rules forbid the address. Nothing was sent. */
  | { readonly kind: 'refused'; readonly message: string; readonly ms: number }
  /** No response arrived, but the receiver may have received the callback. */
  | { readonly kind: 'failed'; readonly message: string; readonly ms: number }

export interface Poster {
  /** Never rejects. When it resolves, the POST has left nothing except perhaps an idle connection. */
  post(request: PostRequest): Promise<PostResult>
  /** Aborts POSTs in progress, and closes all connections. Later POSTs fail. */
  close(): Promise<void>
}

/** The part of the deadline that lookup, TCP and TLS may take together, in milliseconds. */
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
    // The URL was checked when the job was created, but the settings may have changed since.
    const checked = checkCallbackUrl(request.url, options.rules)
    if (!checked.ok) return { kind: 'refused', message: `the callback URL ${checked.rule}` }
    const url = new URL(checked.url)
    const idle = pool.acquire(url.origin)
    if (idle !== null) {
      const result = await send(idle, url, request, signal)
      // A receiver may close an idle connection at any time, so this is not a failure of the receiver: the POST is repeated
      // once on a new connection. It may then arrive twice, which receivers must tolerate (SPEC §6, 4).
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
    if (result.complete) pool.release(connection)
    return { kind: 'answered', ...result.answer } as const
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
