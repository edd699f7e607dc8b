/**
 * A model server over HTTP: `POST {base_url}/chat/completions`, not streamed, in the format of OpenAI and of the servers
 * compatible with it.
 *
 * Each call implements undici's dispatch interface instead of using `request`, which creates a stream for every body: on
 * this path that is the largest cost after the sockets.
 */
import { type Dispatcher, Pool } from 'undici'
import { type Clock, wholeMs } from '../clock.ts'
import type { UpstreamSettings } from '../config/settings.ts'
import type { StopListener, StopSignal } from '../job/stop.ts'
import { FairSlots } from '../sharing/fair-slots.ts'
import type { AnswerForm, ModelServer, Prompt, Reply, RequestFormat } from './model-server.ts'
import {
  type LargeCompletion,
  type Mask,
  maskFor,
  maskReply,
  readCompletion,
  readFailure,
  upstreamError,
} from './read-completion.ts'
import { requestBody, requestFormat } from './request-body.ts'
import { LARGE_ANSWER_BYTES, LargeAnswerSlot, ResponseBody } from './response-body.ts'
import { readRetryAfter } from './retry-after.ts'

/** An answer of more bytes is not read to its end: the longest that models give are a tenth of this. */
export const MAX_ANSWER_BYTES = 16 * 1024 * 1024
/** The body of an error response is read up to this size; a longer one does not explain anything. */
export const MAX_ERROR_BODY_BYTES = 64 * 1024
export const CONNECT_TIMEOUT_MS = 5_000
/** How many answers over LARGE_ANSWER_BYTES one server may send at once, each of up to MAX_ANSWER_BYTES of memory. */
const LARGE_ANSWERS = 3
/** So many of them are for accounts that have none: two large answers that drip in delay only their own account's. */
const LARGE_ANSWER_RESERVE = 1

export interface OpenAiClientOptions {
  readonly name: string
  readonly settings: UpstreamSettings
  /** The key itself, not the name of its variable; null if the server needs none. */
  readonly apiKey: string | null
  readonly clock: Clock
  readonly readLarge: ReadLarge
  readonly maxAnswerBytes?: number
  readonly connectTimeoutMs?: number
}

/** Reads a large completion on a thread, for the account whose job it answers. Null if the signal stopped it first. */
export type ReadLarge = (
  completion: LargeCompletion,
  account: string,
  signal: StopSignal,
) => Promise<Reply | null>

export class OpenAiClient implements ModelServer {
  readonly name: string
  readonly #settings: UpstreamSettings
  readonly #pool: Pool
  /** What all requests have in common. */
  readonly #request: Dispatcher.DispatchOptions
  readonly #mask: Mask
  readonly #limits: CallLimits
  readonly #readLarge: ReadLarge
  readonly #connectTimeoutMs: number

  /** Throws if the address or the key cannot be used; opens no connection before the first call. */
  constructor(options: OpenAiClientOptions) {
    const { name, settings, clock } = options
    const url = new URL(settings.base_url)
    const key = options.apiKey === '' ? null : options.apiKey
    this.name = name
    this.#settings = settings
    this.#readLarge = options.readLarge
    // The query stays: some gateways expect their api-version there.
    const path = `${url.pathname.replace(/\/+$/, '')}/chat/completions${url.search}`
    this.#request = { method: 'POST', path, headers: requestHeaders(name, key) }
    this.#mask = maskFor(key)
    this.#connectTimeoutMs = options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS
    this.#limits = {
      clock,
      timeoutMs: wholeMs(settings.call_timeout_seconds),
      maxAnswerBytes: options.maxAnswerBytes ?? MAX_ANSWER_BYTES,
      largeAnswers: new FairSlots({ limit: LARGE_ANSWERS, reserve: LARGE_ANSWER_RESERVE }),
    }
    this.#pool = new Pool(url.origin, {
      connections: settings.max_concurrency,
      pipelining: 1,
      // One connection per call: over a shared HTTP/2 connection one reset would fail every call in progress.
      allowH2: false,
      connect: { timeout: this.#connectTimeoutMs },
      // Time-outs are ours, on the injected clock. A model may think for minutes before its first byte.
      headersTimeout: 0,
      bodyTimeout: 0,
    })
  }

  requestFormat(form: AnswerForm): RequestFormat {
    return requestFormat(form, this.#settings)
  }

  async ask(model: string, prompt: Prompt, signal: StopSignal): Promise<Reply> {
    if (signal.reason !== null) return this.#failure({ kind: 'aborted' })
    const call = new Call(this.#limits, prompt.account, signal)
    this.#pool.dispatch({ ...this.#request, body: requestBody(model, prompt, this.#settings) }, call)
    const end = await call.ended
    if (end.kind !== 'response') return this.#failure(end)
    const { status, headers, body } = end
    if (status < 300 && body !== null && body.length > LARGE_ANSWER_BYTES) {
      const reply = await this.#readLarge({ status, body }, prompt.account, signal)
      return reply === null ? this.#failure({ kind: 'aborted' }) : maskReply(reply, this.#mask)
    }
    const text = body === null ? null : body.toString('utf8')
    if (status < 300) return readCompletion(status, text ?? '', this.#mask)
    return readFailure(status, text, readRetryAfter(headers, this.#limits.clock.nowMs()), this.#mask)
  }

  async close(): Promise<void> {
    if (!this.#pool.destroyed) await this.#pool.destroy()
  }

  #failure(end: Exclude<CallEnd, { kind: 'response' }>): Reply {
    switch (end.kind) {
      case 'connection error':
        return upstreamError({ status: end.status, retryable: true, message: this.#connectionError(end) })
      case 'too large':
        // Another call would cost as much and return as long an answer.
        return upstreamError({
          status: end.status,
          message: `The answer is longer than ${this.#limits.maxAnswerBytes} bytes.`,
        })
      case 'timed out':
        return upstreamError({
          status: end.status,
          retryable: true,
          timedOut: true,
          message: `The model server did not answer within ${this.#settings.call_timeout_seconds} s.`,
        })
      case 'aborted':
        return upstreamError({ aborted: true, message: 'The call was aborted before it was answered.' })
    }
  }

  /** Names the error by its code: the messages of sockets contain addresses of our own network. */
  #connectionError({ status, code }: { readonly status: number | null; readonly code: string }): string {
    if (code === 'UND_ERR_CONNECT_TIMEOUT') {
      return `No connection to the model server within ${this.#connectTimeoutMs / 1000} s.`
    }
    if (status !== null)
      return `The model server closed the connection in the middle of its answer (${code}).`
    return `The connection to the model server failed (${code}).`
  }
}

function requestHeaders(name: string, key: string | null): string[] {
  const headers = ['content-type', 'application/json', 'accept', 'application/json', 'user-agent', 'parley']
  if (key === null) return headers
  if (!/^[\x21-\x7e]+$/.test(key)) {
    throw new Error(`The key of upstream ${name} contains characters that a header cannot carry.`)
  }
  return [...headers, 'authorization', `Bearer ${key}`]
}

export interface CallLimits {
  readonly clock: Clock
  readonly timeoutMs: number
  readonly maxAnswerBytes: number
  /**
   * Bounds the memory that all answers of a server take together: only a few may be large at once, and the others are
   * paused until there is a slot. This delays a large answer, and never fails one that has been paid for.
   */
  readonly largeAnswers: FairSlots
}

type Headers = { readonly [name: string]: string | string[] | undefined }

/** How a call ended. */
export type CallEnd =
  /** `body` is null if that of an error response was too long. */
  | {
      readonly kind: 'response'
      readonly status: number
      readonly headers: Headers
      readonly body: Buffer | null
    }
  /** The connection failed; `status` is null if no response had begun. */
  | { readonly kind: 'connection error'; readonly status: number | null; readonly code: string }
  | { readonly kind: 'too large'; readonly status: number }
  | { readonly kind: 'timed out'; readonly status: number | null }
  | { readonly kind: 'aborted' }

const EMPTY = Buffer.alloc(0)
const ABORTED = new Error('The call was aborted.')

/**
 * One request and its response, within limits of time and size. The first of response, connection error, time-out, excess
 * size and stop signal ends it; later events are ignored. Unless the response ended it, its connection is closed.
 */
export class Call implements Dispatcher.DispatchHandler, StopListener {
  /** Never rejects. */
  readonly ended: Promise<CallEnd>
  readonly #resolve: (end: CallEnd) => void
  readonly #limits: CallLimits
  readonly #account: string
  readonly #signal: StopSignal
  readonly #cancelTimeout: () => void
  #controller: Dispatcher.DispatchController | null = null
  #isEnded = false
  /** Null until the response begins. */
  #status: number | null = null
  #headers: Headers = {}
  #maxBytes = 0
  #receivedBytes = 0
  #body: Buffer | ResponseBody | null = null
  #largeAnswerSlot: LargeAnswerSlot | null = null

  constructor(limits: CallLimits, account: string, signal: StopSignal) {
    const { promise, resolve } = Promise.withResolvers<CallEnd>()
    this.ended = promise
    this.#resolve = resolve
    this.#limits = limits
    this.#account = account
    this.#signal = signal
    this.#cancelTimeout = limits.clock.after(limits.timeoutMs, () => {
      this.#abort({ kind: 'timed out', status: this.#status })
    })
    signal.listen(this)
  }

  onStop(): void {
    this.#abort({ kind: 'aborted' })
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    // It may have been aborted while it waited for a connection.
    if (this.#isEnded) controller.abort(ABORTED)
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: Headers): void {
    // 1xx responses precede the final one.
    if (status < 200 || this.#isEnded) return
    this.#status = status
    this.#headers = headers
    this.#maxBytes = status < 300 ? this.#limits.maxAnswerBytes : MAX_ERROR_BODY_BYTES
    if (Number(headers['content-length'] ?? 0) > this.#maxBytes) this.#rejectBody(status)
  }

  onResponseData(controller: Dispatcher.DispatchController, piece: Buffer): void {
    if (this.#isEnded || this.#status === null) return
    this.#receivedBytes += piece.length
    if (this.#receivedBytes > this.#maxBytes) {
      this.#rejectBody(this.#status)
      return
    }
    if (this.#body === null) this.#body = piece
    else {
      if (!(this.#body instanceof ResponseBody)) this.#body = new ResponseBody(this.#body)
      this.#body.add(piece)
    }
    if (this.#receivedBytes > LARGE_ANSWER_BYTES) {
      this.#largeAnswerSlot ??= new LargeAnswerSlot(this.#limits.largeAnswers, this.#account, controller)
    }
  }

  onResponseEnd(): void {
    if (this.#isEnded) return
    const status = this.#status
    if (status === null) this.#end({ kind: 'connection error', status, code: 'no response' })
    else {
      const body = this.#body instanceof ResponseBody ? this.#body.toBuffer() : (this.#body ?? EMPTY)
      this.#end({ kind: 'response', status, headers: this.#headers, body })
    }
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: Error): void {
    const code = 'code' in error && typeof error.code === 'string' ? error.code : error.name
    // Only our own close destroys a pool.
    if (code === 'UND_ERR_DESTROYED' || code === 'UND_ERR_CLOSED') this.#end({ kind: 'aborted' })
    else this.#end({ kind: 'connection error', status: this.#status, code })
  }

  #rejectBody(status: number): void {
    if (status < 300) this.#abort({ kind: 'too large', status })
    else this.#abort({ kind: 'response', status, headers: this.#headers, body: null })
  }

  #abort(end: CallEnd): void {
    if (this.#isEnded) return
    this.#end(end)
    this.#controller?.abort(ABORTED)
  }

  #end(end: CallEnd): void {
    if (this.#isEnded) return
    this.#isEnded = true
    this.#cancelTimeout()
    this.#signal.unlisten(this)
    this.#largeAnswerSlot?.release()
    this.#body = null
    this.#resolve(end)
  }
}
