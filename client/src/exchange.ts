/**
 * Sends a request to the server, decides whether to retry it, and reads the response. Only temporary failures are retried, and
 * only if a repeated request changes nothing; after a Retry-After above two minutes, the call fails. All requests of the client
 * are sent here.
 */
import type { WithResponse } from './api-promise.ts'
import { backoffMs, retryAfterS } from './backoff.ts'
import { type Clock, pause, withTimeout } from './clock.ts'
import {
  ConnectionError,
  type ErrorFields,
  NotFoundError,
  type ParleyError,
  RateLimitError,
  ServerError,
  ServiceUnavailableError,
  TimeoutError,
  UnexpectedResponseError,
} from './errors.ts'
import type { Include } from './job.ts'
import type { Logger } from './logger.ts'
import { errorOf, excerpt } from './response-error.ts'

/** `onAnswer` gets each response in this form. Responses after which the request is retried are included. */
export interface AnswerInfo {
  readonly method: string
  readonly path: string
  /** Counts the tries of the call, from 1. */
  readonly attempt: number
  readonly status: number
  readonly headers: Headers
  readonly requestId: string | undefined
  /** Contains the body as it was received. */
  readonly text: string
}

/** Maps names to values. Null removes a header that all calls would have. */
export type HeaderOptions = Readonly<Record<string, string | null | undefined>>

export interface CallOptions {
  /** Aborts the call with the signal's reason, even during pauses and waits. */
  readonly signal?: AbortSignal | undefined
  /** These headers are added to the requests of this call. They replace headers of the client with the same names. */
  readonly headers?: HeaderOptions | undefined
  /** Limits how often the call is retried after temporary failures. */
  readonly maxRetries?: number | undefined
  /** Limits each try to this many seconds, including the time to read the response. */
  readonly requestTimeout?: number | undefined
  /** Called with each response, for example to log it or to read headers such as `x-cache`. */
  readonly onAnswer?: ((answer: AnswerInfo) => void) | undefined
  /** Lists what the returned jobs should contain in addition. */
  readonly include?: readonly Include[] | undefined
}

export interface ExchangeParts {
  readonly baseUrl: string
  readonly apiKey: string
  readonly headers: HeaderOptions
  readonly logger: Logger
  readonly fetch: typeof globalThis.fetch
  readonly parseJson: (text: string) => unknown
  readonly clock: Clock
  readonly maxRetries: number
  readonly requestTimeout: number
  readonly onAnswer: CallOptions['onAnswer']
}

export interface Call extends CallOptions {
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** `path` is below the base URL, such as `/api/v1/me`. */
  readonly path: string
  /** `body` is JSON text. All tries send the same text, because the server requires that for an Idempotency-Key. */
  readonly body?: string
  /** Without a key, a request that creates jobs is never retried, because a retry could create them twice. */
  readonly idempotencyKey?: string | null
  /** Repeating the request changes nothing. Such a request can be retried without a key. */
  readonly isIdempotent?: boolean
  /** This is the data of a DELETE request whose retry gets 404: an earlier try deleted the job, but its response was lost. */
  readonly dataIfGone?: object
  /**
   * `data` must have this field. Otherwise, the response is from a different server that happens to use the same outer shape.
   */
  readonly field?: string
  /** These seconds are added to the timeout, because the server may wait before it responds. */
  readonly extraSeconds?: number
  readonly onHeaders?: (headers: Headers) => void
}

/** The call fails instead of waiting longer than this for a retry. */
const MAX_RETRY_AFTER_S = 120

export class Exchange {
  readonly clock: Clock
  readonly logger: Logger
  readonly #parts: ExchangeParts

  constructor(parts: ExchangeParts) {
    this.clock = parts.clock
    this.logger = parts.logger
    this.#parts = parts
  }

  /** Resolves with the `data` of the response. Rejects with a `ParleyError`, or with the signal's reason. */
  async data<D>(call: Call): Promise<D> {
    return (await this.send<D>(call)).data
  }

  /** Like `data`, but resolves with the data and the response. */
  async send<D>(call: Call): Promise<WithResponse<D>> {
    const maxRetries = call.maxRetries ?? this.#parts.maxRetries
    for (let attempt = 1; ; attempt++) {
      try {
        return (await this.#once(call, attempt)) as WithResponse<D>
      } catch (error) {
        if (attempt > maxRetries || !isSafeToRepeat(call) || !isTemporary(error)) throw error
        if ((error.retryAfter ?? 0) > MAX_RETRY_AFTER_S) throw error
        const pauseMs = backoffMs(attempt, error.retryAfter)
        const { method, path } = call
        const seconds = (pauseMs / 1000).toFixed(1)
        this.logger.info(
          `${method} ${path}: ${error.message}; retry ${attempt} of ${maxRetries} in ${seconds} s`,
          {
            method,
            path,
            status: error.status,
            requestId: error.requestId,
            retry: attempt,
            maxRetries,
            pauseMs,
          },
        )
        await pause(pauseMs, this.clock, call.signal)
      }
    }
  }

  async #once(call: Call, attempt: number): Promise<WithResponse<unknown>> {
    const startedMs = this.clock.steadyMs()
    const { response, text } = await this.#fetch(call)
    const { status, headers } = response
    const requestId = headers.get('x-request-id') ?? undefined
    const { method, path, onHeaders, onAnswer = this.#parts.onAnswer } = call
    onHeaders?.(headers)
    onAnswer?.({ method, path, attempt, status, headers, requestId, text })
    const ms = Math.round(this.clock.steadyMs() - startedMs)
    const fieldsOfLog = { method, path, attempt, status, ms, requestId }
    this.logger.debug(`${method} ${path}: ${status} in ${ms} ms`, fieldsOfLog)
    const fields: ErrorFields = {
      status,
      requestId,
      retryAfter: retryAfterS(headers.get('retry-after'), this.clock.nowMs()),
      idempotencyKey: call.idempotencyKey ?? undefined,
    }
    if (response.type === 'opaqueredirect' || (status >= 300 && status < 400)) {
      const message = `the server at ${this.#parts.baseUrl} redirects to another URL; use that one`
      throw new UnexpectedResponseError(message, fields)
    }
    const body = this.#parsed(text)
    if (!response.ok) {
      const error = errorOf(status, body, text, fields)
      if (error instanceof NotFoundError && attempt > 1 && call.dataIfGone)
        return { data: call.dataIfGone, response, requestId }
      throw error
    }
    const envelope = body as { readonly success?: unknown; readonly data?: unknown } | null | undefined
    const { data } = envelope ?? {}
    const isKnown =
      call.field === undefined || (typeof data === 'object' && data !== null && call.field in data)
    if (envelope?.success === true && data !== undefined && isKnown) {
      return { data, response, requestId }
    }
    const message = `the response of ${this.#parts.baseUrl} is not from a Parley server: ${excerpt(text)}`
    throw new UnexpectedResponseError(message, fields)
  }

  #parsed(text: string): unknown {
    try {
      return this.#parts.parseJson(text)
    } catch {
      return undefined
    }
  }

  async #fetch(call: Call): Promise<{ readonly response: Response; readonly text: string }> {
    const { method, body, idempotencyKey, extraSeconds = 0, signal } = call
    const { baseUrl, apiKey, headers, fetch } = this.#parts
    const seconds = extraSeconds + (call.requestTimeout ?? this.#parts.requestTimeout)
    const failure = { idempotencyKey: idempotencyKey ?? undefined }
    const timeoutError = () => new TimeoutError(`${baseUrl} did not respond within ${seconds} s`, failure)
    return withTimeout(seconds, timeoutError, this.clock, signal, async (abortSignal) => {
      try {
        const response = await fetch(baseUrl + withInclude(call), {
          method,
          headers: mergedHeaders(headers, call.headers, {
            accept: 'application/json',
            'x-api-key': apiKey,
            'content-type': body === undefined ? undefined : 'application/json',
            'idempotency-key': idempotencyKey ?? undefined,
          }),
          ...(body !== undefined && { body }),
          // Following a redirect could send the key to a different server.
          redirect: 'manual',
          signal: abortSignal,
        })
        return { response, text: await response.text() }
      } catch (cause) {
        abortSignal.throwIfAborted()
        throw new ConnectionError(`no response from ${baseUrl}: ${reasonOf(cause)}`, { ...failure, cause })
      }
    })
  }
}

/** The case of header names does not matter. Later headers replace earlier ones, and null removes a header. */
function mergedHeaders(...all: readonly (HeaderOptions | undefined)[]): Record<string, string> {
  const merged: Record<string, string> = {}
  for (const headers of all) {
    for (const [name, value] of Object.entries(headers ?? {})) {
      if (value === null) delete merged[name.toLowerCase()]
      else if (value !== undefined) merged[name.toLowerCase()] = value
    }
  }
  return merged
}

/** Reads change nothing. For a repeated Idempotency-Key, the server returns the jobs of the first request. */
function isSafeToRepeat({ method, idempotencyKey, isIdempotent }: Call): boolean {
  return method === 'GET' || isIdempotent === true || typeof idempotencyKey === 'string'
}

export function isTemporary(error: unknown): error is ParleyError {
  return TEMPORARY.some((kind) => error instanceof kind)
}

const TEMPORARY = [ConnectionError, TimeoutError, RateLimitError, ServiceUnavailableError, ServerError]

/** Runtimes report "fetch failed" and put the actual reason into `cause`. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { cause } = error
  return cause instanceof Error && cause.message !== '' ? cause.message : error.message
}

function withInclude({ path, include = [] }: Call): string {
  if (include.length === 0) return path
  return `${path}${path.includes('?') ? '&' : '?'}include=${include.join()}`
}
