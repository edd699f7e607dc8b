/**
 * A model server over HTTP: `POST {base_url}/chat/completions`, not streamed, as OpenAI and those compatible with it
 * speak it.
 */
import { type Dispatcher, Pool } from 'undici'
import { type Clock, wholeMs } from '../clock.ts'
import type { UpstreamSettings } from '../config/settings.ts'
import type { StopSignal } from '../job/stop.ts'
import { type Ended, type ExchangeLimits, exchange } from './http-exchange.ts'
import type { AnswerForm, ModelServer, Prompt, Reply, RequestFormat } from './model-server.ts'
import {
  type Mask,
  maskFor,
  readCompletion,
  readFailure,
  readRetryAfter,
  upstreamError,
} from './read-completion.ts'
import { requestBody, requestFormat } from './request-body.ts'
import { Semaphore } from './semaphore.ts'

/** An answer of more bytes is not read to its end: the longest that models give are a tenth of this. */
export const MAX_ANSWER_BYTES = 16 * 1024 * 1024
export const CONNECT_TIMEOUT_MS = 5_000
/** Answers over LARGE_ANSWER_BYTES that one server may have under way, each with up to MAX_ANSWER_BYTES of memory. */
export const LARGE_ANSWERS = 2

export interface OpenAiClientOptions {
  readonly name: string
  readonly settings: UpstreamSettings
  /** The key itself, not the name of its variable; null where the server wants none. */
  readonly apiKey: string | null
  readonly clock: Clock
  readonly maxAnswerBytes?: number
  readonly connectTimeoutMs?: number
}

export class OpenAiClient implements ModelServer {
  readonly name: string
  readonly #settings: UpstreamSettings
  readonly #pool: Pool
  readonly #path: string
  readonly #headers: readonly string[]
  readonly #mask: Mask
  readonly #limits: ExchangeLimits
  readonly #clock: Clock
  readonly #connectTimeoutMs: number

  /** Throws where the address or the key cannot be used; opens no connection before the first call. */
  constructor(options: OpenAiClientOptions) {
    const { name, settings, clock } = options
    const url = new URL(settings.base_url)
    this.name = name
    this.#settings = settings
    this.#clock = clock
    // A query stays: some gateways want their api-version there.
    this.#path = `${url.pathname.replace(/\/+$/, '')}/chat/completions${url.search}`
    const key = options.apiKey === '' ? null : options.apiKey
    this.#headers = requestHeaders(name, key)
    this.#mask = maskFor(key)
    this.#connectTimeoutMs = options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS
    this.#limits = {
      clock,
      timeoutMs: wholeMs(settings.call_timeout_seconds),
      maxAnswerBytes: options.maxAnswerBytes ?? MAX_ANSWER_BYTES,
      largeAnswers: new Semaphore(LARGE_ANSWERS),
    }
    this.#pool = new Pool(url.origin, {
      connections: settings.max_concurrency,
      pipelining: 1,
      // One call, one connection: over a shared HTTP/2 connection one reset would fail every call under way.
      allowH2: false,
      connect: { timeout: this.#connectTimeoutMs },
      // The deadline of a call is ours, on the injected clock. A model may think for minutes before its first byte.
      headersTimeout: 0,
      bodyTimeout: 0,
    })
  }

  mannerFor(form: AnswerForm): RequestFormat {
    return requestFormat(form, this.#settings)
  }

  ask(model: string, prompt: Prompt, signal: StopSignal): Promise<Reply> {
    const request: Dispatcher.DispatchOptions = {
      method: 'POST',
      path: this.#path,
      // undici reads it only; its type asks for an array it might write.
      headers: this.#headers as string[],
      body: requestBody(model, prompt, this.#settings),
    }
    return exchange(this.#pool, request, this.#limits, signal).then((ended) => this.#reply(ended))
  }

  async close(): Promise<void> {
    if (!this.#pool.destroyed) await this.#pool.destroy()
  }

  #reply(ended: Ended): Reply {
    switch (ended.kind) {
      case 'response': {
        const { status, headers, text } = ended
        if (status < 300) return readCompletion(status, text ?? '', this.#mask)
        return readFailure(status, text, readRetryAfter(headers, this.#clock.nowMs()), this.#mask)
      }
      case 'broken':
        return upstreamError({ status: ended.status, retryable: true, message: this.#breakage(ended) })
      case 'too_large':
        // Another call would be paid for as well, and be as long.
        return upstreamError({
          status: ended.status,
          message: `The answer is longer than ${this.#limits.maxAnswerBytes} bytes.`,
        })
      case 'timed_out':
        return upstreamError({
          status: ended.status,
          retryable: true,
          timedOut: true,
          message: `The model server did not answer within ${this.#settings.call_timeout_seconds} s.`,
        })
      case 'aborted':
        return upstreamError({ aborted: true, message: 'The call was ended before it was answered.' })
    }
  }

  /** Says what broke by its code: the messages of sockets name addresses of our own network. */
  #breakage({ status, code }: { readonly status: number | null; readonly code: string }): string {
    if (code === 'UND_ERR_CONNECT_TIMEOUT') {
      return `No connection to the model server within ${this.#connectTimeoutMs / 1000} s.`
    }
    if (status !== null) return `The model server broke off in the middle of its answer (${code}).`
    return `The connection to the model server failed (${code}).`
  }
}

function requestHeaders(name: string, key: string | null): readonly string[] {
  const headers = ['content-type', 'application/json', 'accept', 'application/json', 'user-agent', 'parley']
  if (key === null) return headers
  if (!/^[\x21-\x7e]+$/.test(key)) {
    throw new Error(`The key of upstream ${name} holds characters that a header cannot carry.`)
  }
  return [...headers, 'authorization', `Bearer ${key}`]
}
