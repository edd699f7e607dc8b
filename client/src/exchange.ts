/** One HTTP exchange with the server, and its repetitions: everything that the client sends goes through here. */
import { backoffMs, retryAfterS } from './backoff.ts'
import { type Clock, pause, within } from './clock.ts'
import {
  ConnectionError,
  type ErrorFields,
  type ParleyError,
  RateLimitError,
  ServerError,
  ServiceUnavailableError,
  TimeoutError,
  UnexpectedResponseError,
} from './errors.ts'
import { excerpt, refusalOf } from './refusal.ts'

/** What is told of each answer, those that are tried again included. */
export interface AnswerInfo {
  readonly method: string
  readonly path: string
  /** 1 for the first try. */
  readonly attempt: number
  readonly status: number
  readonly headers: Headers
  readonly requestId: string | undefined
  /** The body as it came. */
  readonly text: string
}

/** What every call takes. */
export interface CallOptions {
  /** Ends the call, its pauses and its waits with the signal's reason. */
  readonly signal?: AbortSignal | undefined
  /** How often a call that failed for a while is tried again. */
  readonly maxRetries?: number | undefined
  /** Seconds for each try, the answer included. */
  readonly requestTimeout?: number | undefined
  /** Called with each answer: for its text, its headers (`x-cache`), or a log. */
  readonly onAnswer?: ((answer: AnswerInfo) => void) | undefined
}

export interface ExchangeParts {
  readonly baseUrl: string
  readonly apiKey: string
  readonly headers: Readonly<Record<string, string>>
  readonly fetch: typeof globalThis.fetch
  readonly parseJson: (text: string) => unknown
  readonly clock: Clock
  readonly maxRetries: number
  readonly requestTimeout: number
  readonly onAnswer: CallOptions['onAnswer']
}

export interface Call extends CallOptions {
  readonly method: 'GET' | 'POST'
  /** From the base URL, such as `/api/v1/me`. */
  readonly path: string
  /** JSON text. It is the same for each try, as the server wants it of one Idempotency-Key. */
  readonly body?: string
  /** Null or absent on a POST: it is never tried again, because that might do it twice. */
  readonly idempotencyKey?: string | null
  /** Seconds that the server may take beyond what it takes for others: a single create waits. */
  readonly waits?: number
  /** Looks at the headers of each answer. */
  readonly onHeaders?: (headers: Headers) => void
}

/** Who is asked to stay away for longer than this, in seconds, is told so instead. */
const LONGEST_RETRY_AFTER_S = 120

export class Exchange {
  readonly clock: Clock
  readonly #parts: ExchangeParts

  constructor(parts: ExchangeParts) {
    this.clock = parts.clock
    this.#parts = parts
  }

  /** The `data` of the answer. Throws a `ParleyError`, or the signal's reason. */
  async data<D>(call: Call): Promise<D> {
    const maxRetries = call.maxRetries ?? this.#parts.maxRetries
    for (let attempt = 1; ; attempt++) {
      try {
        return (await this.#once(call, attempt)) as D
      } catch (error) {
        if (attempt > maxRetries || !isSafeToRepeat(call) || !isTemporary(error)) throw error
        if ((error.retryAfter ?? 0) > LONGEST_RETRY_AFTER_S) throw error
        await pause(backoffMs(attempt, error.retryAfter), this.clock, call.signal)
      }
    }
  }

  async #once(call: Call, attempt: number): Promise<unknown> {
    const { response, text } = await this.#fetch(call)
    const { status, headers } = response
    const requestId = headers.get('x-request-id') ?? undefined
    const { method, path, onHeaders, onAnswer = this.#parts.onAnswer } = call
    onHeaders?.(headers)
    onAnswer?.({ method, path, attempt, status, headers, requestId, text })
    const fields: ErrorFields = {
      status,
      requestId,
      retryAfter: retryAfterS(headers.get('retry-after'), this.clock.nowMs()),
      idempotencyKey: call.idempotencyKey ?? undefined,
    }
    if (response.type === 'opaqueredirect' || (status >= 300 && status < 400)) {
      const message = `${this.#parts.baseUrl} redirects; give the base URL that it redirects to`
      throw new UnexpectedResponseError(message, fields)
    }
    const body = this.#parsed(text)
    if (!response.ok) throw refusalOf(status, body, text, fields)
    const envelope = body as { readonly success?: unknown; readonly data?: unknown } | null | undefined
    if (envelope?.success === true && envelope.data !== undefined) return envelope.data
    const message = `${this.#parts.baseUrl} does not answer as Parley does: ${excerpt(text)}`
    throw new UnexpectedResponseError(message, fields)
  }

  #parsed(text: string): unknown {
    try {
      return this.#parts.parseJson(text)
    } catch {
      return undefined
    }
  }

  /** One try. The time counts until the answer is read to its end. */
  async #fetch(call: Call): Promise<{ readonly response: Response; readonly text: string }> {
    const { method, path, body, idempotencyKey, waits = 0, signal } = call
    const { baseUrl, apiKey, headers, fetch } = this.#parts
    const seconds = waits + (call.requestTimeout ?? this.#parts.requestTimeout)
    const failure = { idempotencyKey: idempotencyKey ?? undefined }
    const tooLate = () => new TimeoutError(`${baseUrl} did not answer within ${seconds} s`, failure)
    return within(seconds, tooLate, this.clock, signal, async (ending) => {
      try {
        const response = await fetch(baseUrl + path, {
          method,
          headers: {
            ...headers,
            accept: 'application/json',
            'x-api-key': apiKey,
            ...(body !== undefined && { 'content-type': 'application/json' }),
            ...(typeof idempotencyKey === 'string' && { 'idempotency-key': idempotencyKey }),
          },
          ...(body !== undefined && { body }),
          // A redirect could take the key to another server.
          redirect: 'manual',
          signal: ending,
        })
        return { response, text: await response.text() }
      } catch (cause) {
        ending.throwIfAborted()
        throw new ConnectionError(`no answer from ${baseUrl}: ${reasonOf(cause)}`, { ...failure, cause })
      }
    })
  }
}

/** Reads change nothing, and the server answers a create with a known key as it did the first time. */
function isSafeToRepeat({ method, idempotencyKey }: Call): boolean {
  return method === 'GET' || typeof idempotencyKey === 'string'
}

/** Whether the same may work a little later. */
export function isTemporary(error: unknown): error is ParleyError {
  return TEMPORARY.some((kind) => error instanceof kind)
}

const TEMPORARY = [ConnectionError, TimeoutError, RateLimitError, ServiceUnavailableError, ServerError]

/** Runtimes say "fetch failed", and put what failed under it. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { cause } = error
  return cause instanceof Error && cause.message !== '' ? cause.message : error.message
}
