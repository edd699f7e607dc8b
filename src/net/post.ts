/**
 * Sends one callback: a POST to an address that a caller chose, so with a guard, deadlines and a cap on what is read.
 * Nothing is followed, decompressed or retried here; whether an answer is a success is for the courier to say.
 */
import { type Clock, systemClock } from '../clock.ts'
import { type Connection, type ConnectionPoolLimits, createConnectionPool } from './connection-pool.ts'
import { asError, type Deadline, startDeadline } from './deadline.ts'
import { dial, type OpenSocket, openSocket } from './dial.ts'
import { type Answer, exchange, type OutgoingPost } from './exchange.ts'
import { createResolver, type ResolveName } from './resolve-name.ts'
import { type AddressRules, checkCallbackUrl } from './ssrf-guard.ts'

export interface PosterOptions {
  readonly rules: AddressRules
  /** The deadline of one POST, from look-up to the last byte that is read: `callbacks.timeout_seconds`. */
  readonly timeoutMs: number
  /** Connections that wait to be used again: as many as are used at once, or they are opened again and again. */
  readonly keep: ConnectionPoolLimits
  readonly clock?: Clock
  readonly resolve?: ResolveName
  readonly open?: OpenSocket
}

export interface PostRequest extends OutgoingPost {
  readonly url: string
  /** Calls the POST off. */
  readonly signal?: AbortSignal
}

/** `ms` is how long it took. `message` says what happened, for people. */
export type PostResult =
  /** A status came. The answer may have been cut after it: by us, by the receiver or by the deadline. */
  | ({ readonly kind: 'answered'; readonly ms: number } & Answer)
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
  const kept = createConnectionPool(clock, options.keep)
  const underWay = new Set<Deadline>()
  let closed = false

  async function attempt(request: PostRequest, signal: AbortSignal): Promise<Result> {
    // Checked again, because the settings may have changed since the job was created.
    const checked = checkCallbackUrl(request.url, options.rules)
    if (!checked.ok) return { kind: 'refused', message: `the callback URL ${checked.rule}` }
    const url = new URL(checked.url)
    const connection = kept.take(url.origin)
    if (connection !== null) {
      const result = await send(connection, url, request, signal)
      // No news about the receiver, which may close a kept connection at any time: once more upon a new one. It may
      // have got the callback nevertheless; receivers tolerate duplicates (SPEC §6, 4).
      if (result.kind !== 'cut off') return result
    }
    const dialed = await dial(url, dialOptions, signal)
    if (dialed.kind !== 'connected') return dialed
    const result = await send(kept.open(url.origin, dialed.socket), url, request, signal)
    return result.kind === 'cut off' ? { kind: 'failed', message: CUT_OFF } : result
  }

  async function send(connection: Connection, url: URL, request: PostRequest, signal: AbortSignal) {
    const exchanged = await exchange(connection, url, request, signal, clock)
    if (exchanged.kind !== 'answered') return exchanged
    if (exchanged.whole) kept.give(connection)
    return { kind: 'answered', ...exchanged.answer } as const
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
      return { kind: 'failed', message: asError(error).message, ms: tookMs() }
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
