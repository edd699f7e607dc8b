/**
 * Calls a model server over HTTP: `POST {base_url}/chat/completions`, not streamed, in the format of OpenAI and compatible
 * servers.
 */
import { type Dispatcher, Pool } from 'undici'
import { type Clock, wholeMs } from '../clock.ts'
import type { UpstreamSettings } from '../config/settings.ts'
import type { UpstreamAccess } from '../config/upstream-access.ts'
import { Stop, type StopSignal } from '../job/stop.ts'
import { FairSlots } from '../sharing/fair-slots.ts'
import type { SentRoles } from './arrange-messages.ts'
import { AutomaticRoles, defaultRoles } from './automatic-roles.ts'
import {
  endpointUrl,
  requestBody,
  requestFormat,
  requestHeaders,
  SentOptions,
  sendsSchema,
  trustedCertificates,
  withoutSchema,
} from './build-request.ts'
import { Call, type CallEnd, type CallLimits, LARGE_ANSWER_BYTES } from './call.ts'
import { connectionFault, isBroken } from './failure-kinds.ts'
import { type Mask, maskFor } from './mask.ts'
import type {
  LearnedRoles,
  ModelServer,
  Prompt,
  Reply,
  RequestFormat,
  ServerRate,
  UpstreamError,
} from './model-server.ts'
import {
  type LargeCompletion,
  maskReply,
  readCompletion,
  readFailure,
  upstreamError,
} from './read-completion.ts'
import { readRateHeaders, readRetryAfter } from './retry-after.ts'

/** An answer is read up to this length. If it is longer, the call fails. */
export const MAX_ANSWER_BYTES = 16 * 1024 * 1024
const CONNECT_TIMEOUT_MS = 5_000
/** A server that takes longer to list its models is not ready for conversations. */
const CHECK_TIMEOUT_MS = 4_000
/** A temporarily unavailable server or gateway sends these. Any other status proves that the server runs. */
const CHECK_FAILURES: readonly number[] = [408, 429, 502, 503, 504]
/** One server may send this many answers over LARGE_ANSWER_BYTES at once. Each may take MAX_ANSWER_BYTES of memory. */
const LARGE_ANSWERS = 3
/** These slots are for accounts that hold none, so that the slow large answers of one account cannot take all slots. */
const LARGE_ANSWER_RESERVE = 1

/** Matches messages of chat templates that reject a conversation because of its roles. */
const ABOUT_ROLES = /\broles?\b|\balternat/i

export interface OpenAiClientOptions extends Partial<UpstreamAccess> {
  readonly name: string
  readonly settings: UpstreamSettings
  /** This is the key itself, not the name of its variable; null if the server needs none. */
  readonly apiKey: string | null
  readonly clock: Clock
  readonly readLarge: ReadLarge
  readonly maxAnswerBytes?: number
  readonly connectTimeoutMs?: number
  readonly readsRates?: boolean
  readonly traceparent?: () => string | null
}

/**
 * Reads a large completion on a thread, within the account's share of the threads. Resolves with null if the signal stopped it.
 */
export type ReadLarge = (
  completion: LargeCompletion,
  account: string,
  signal: StopSignal,
) => Promise<Reply | null>

export class OpenAiClient implements ModelServer {
  readonly name: string
  readonly #settings: UpstreamSettings
  readonly #roles: SentRoles | 'auto'
  readonly #automatic: AutomaticRoles
  readonly #pool: Pool
  readonly #openCheckPool: () => Pool
  #checkPool: Pool | null = null
  readonly #request: Dispatcher.DispatchOptions
  readonly #headers: string[]
  readonly #modelsPath: string
  /** The fields of `body` in the settings end the body of each request. */
  readonly #bodyEnd: string | null
  readonly #options: SentOptions
  readonly #mask: Mask
  readonly #limits: CallLimits
  readonly #readLarge: ReadLarge
  readonly #connectTimeoutMs: number
  readonly #traceparent: OpenAiClientOptions['traceparent']
  readonly #readsRates: boolean

  /** Throws if the URL or the key cannot be used. Opens no connection before the first call. */
  constructor(options: OpenAiClientOptions) {
    const { name, settings, clock, apiKey, headers = {}, query = {}, ca = null } = options
    const url = endpointUrl(settings.base_url, '/chat/completions', query)
    this.name = name
    this.#settings = settings
    this.#roles = settings.roles ?? defaultRoles(url)
    this.#automatic = new AutomaticRoles(clock)
    this.#readLarge = options.readLarge
    const models = endpointUrl(settings.base_url, '/models', query)
    this.#modelsPath = `${models.pathname}${models.search}`
    const path = `${url.pathname}${url.search}`
    this.#headers = requestHeaders(name, { apiKey, headers })
    this.#request = { method: 'POST', path, headers: this.#headers }
    this.#traceparent = options.traceparent
    this.#readsRates = options.readsRates ?? false
    const fields = JSON.stringify(settings.body).slice(1)
    this.#bodyEnd = fields === '}' ? null : `,${fields}`
    this.#options = new SentOptions(settings.body, defaultRoles(url) !== 'auto')
    this.#mask = maskFor(options.secrets ?? (apiKey ? [apiKey] : []))
    this.#connectTimeoutMs = options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS
    this.#limits = {
      clock,
      timeoutMs: wholeMs(settings.call_timeout_seconds),
      maxAnswerBytes: options.maxAnswerBytes ?? MAX_ANSWER_BYTES,
      largeAnswers: new FairSlots({ limit: LARGE_ANSWERS, reserve: LARGE_ANSWER_RESERVE }),
    }
    const poolOptions: Pool.Options = {
      // The upstream's slots already limit the calls to this number.
      connections: settings.max_concurrency,
      pipelining: 1,
      // Each call has its own connection, because a reset of a shared HTTP/2 connection would fail every call in progress.
      allowH2: false,
      connect: { timeout: this.#connectTimeoutMs, ...trustedCertificates(ca) },
      // `Call` handles timeouts on the injected clock. A model may think for minutes before its first byte.
      headersTimeout: 0,
      bodyTimeout: 0,
    }
    this.#pool = new Pool(url.origin, poolOptions)
    this.#openCheckPool = () => new Pool(url.origin, { ...poolOptions, connections: 1 })
  }

  requestFormat(model: string, prompt: Prompt, avoidsSchema = false): RequestFormat {
    const { structured_output } = this.#settings
    const first = this.#roles === 'auto' ? 'merged_system' : this.#roles
    const usual = requestFormat(prompt.form, first, structured_output)
    const without = avoidsSchema ? withoutSchema(prompt.form, usual) : null
    const formatted = without === null ? usual : ({ ...without, other_format: 'json_mode' } as const)
    const { optionsJson } = prompt
    const format = optionsJson === undefined ? formatted : this.#options.named(formatted, model, optionsJson)
    if (this.#roles !== 'auto') return format
    const roles = this.#automatic.rolesFor(model, prompt, format.instruction !== undefined)
    return roles === format.roles ? format : { ...format, roles }
  }

  otherFormat(
    model: string,
    prompt: Prompt,
    format: RequestFormat,
    error: UpstreamError,
  ): RequestFormat | null {
    const { optionsJson } = prompt
    const renamed = optionsJson && this.#options.renamed(format, optionsJson, error)
    if (renamed) return renamed
    const { other_format: before } = format
    const mayBeRoles = this.#roles === 'auto' && this.#automatic.mayBeRejected(format, error)
    // A message that mentions roles may quote a schema with a property named `role`. So the schema is left out first. Only if
    // the server rejects that format, too, are the roles changed, because then the schema cannot be the reason.
    const mayBeSchema =
      error.rejectsJsonMode || (mayBeRoles && sendsSchema(format) && ABOUT_ROLES.test(error.message))
    const instead = mayBeSchema ? withoutSchema(prompt.form, format) : null
    if (instead !== null) {
      // The instruction that replaces the schema is a system message, which the conversation may not have had before.
      const mayChange = this.#roles === 'auto' && format.roles === 'native'
      const roles = mayChange ? this.#automatic.rolesFor(model, prompt, true) : format.roles
      const isBoth = before === 'roles' || before === 'both'
      return { ...format, ...instead, roles, other_format: isBoth ? 'both' : 'json_mode' }
    }
    if (!mayBeRoles) return null
    return { ...format, roles: 'no_system', other_format: before === undefined ? 'roles' : 'both' }
  }

  learnedRoles(model: string): LearnedRoles | null {
    return this.#automatic.learned(model)
  }

  async ask(model: string, prompt: Prompt, format: RequestFormat, signal: StopSignal): Promise<Reply> {
    if (signal.reason !== null) return this.#failure({ kind: 'aborted' })
    const call = new Call(this.#limits, prompt.account, signal)
    const composed = requestBody(model, prompt, format)
    const { optionsJson } = prompt
    const end = optionsJson === undefined ? this.#bodyEnd : this.#options.bodyEnd(format, optionsJson)
    const sent = end === null ? composed : composed.slice(0, -1) + end
    const traceparent = this.#traceparent?.()
    const headers = traceparent ? [...this.#headers, 'traceparent', traceparent] : this.#headers
    this.#pool.dispatch({ ...this.#request, headers, body: sent }, call)
    const ended = await call.ended
    if (ended.kind !== 'response') return this.#failure(ended)
    const { status, body } = ended
    const rate = this.#readsRates ? readRateHeaders(ended.headers) : null
    if (status >= 300) return withRate(this.#readFailure(ended), rate)
    let reply: Reply | null
    if (body !== null && body.length > LARGE_ANSWER_BYTES) {
      reply = await this.#readLarge({ status, body }, prompt.account, signal)
      if (reply === null) return this.#failure({ kind: 'aborted' })
      reply = maskReply(reply, this.#mask)
    } else reply = readCompletion(status, body?.toString('utf8') ?? '', this.#mask)
    if (this.#roles === 'auto' && format.roles !== 'native' && reply.kind !== 'error') {
      this.#automatic.answered(model, prompt, format)
    }
    if (optionsJson && reply.kind !== 'error') this.#options.answered(format, model, optionsJson)
    return rate === null ? reply : withRate(reply, rate)
  }

  async check(): Promise<UpstreamError | null> {
    const call = new Call({ ...this.#limits, timeoutMs: CHECK_TIMEOUT_MS }, '', new Stop())
    this.#checkPool ??= this.#openCheckPool()
    this.#checkPool.dispatch({ ...this.#request, method: 'GET', path: this.#modelsPath }, call)
    const end = await call.ended
    if (end.kind === 'response' && !CHECK_FAILURES.includes(end.status)) return null
    if (end.kind === 'too large' || end.kind === 'aborted') return null
    if (end.kind === 'timed out') {
      const message = `The model server did not list its models within ${CHECK_TIMEOUT_MS / 1000} s.`
      return upstreamError({ retryable: true, timedOut: true, message })
    }
    const reply = end.kind === 'response' ? this.#readFailure(end) : this.#failure(end)
    return reply.kind === 'error' ? reply : null
  }

  async close(): Promise<void> {
    for (const pool of [this.#pool, this.#checkPool]) if (pool?.destroyed === false) await pool.destroy()
  }

  #readFailure({ status, headers, body }: Extract<CallEnd, { kind: 'response' }>): Reply {
    const retryAfterMs = readRetryAfter(headers, this.#limits.clock.nowMs())
    return readFailure(status, body?.toString('utf8') ?? null, retryAfterMs, this.#mask)
  }

  #failure(end: Exclude<CallEnd, { kind: 'response' }>): Reply {
    switch (end.kind) {
      case 'connection error':
        return upstreamError({
          status: end.status,
          code: end.code,
          connection: end.status === null ? connectionFault(end.code) : null,
          ...((end.status !== null || isBroken(end.code)) && { broke: true }),
          retryable: true,
          message: this.#connectionError(end),
        })
      case 'too large':
        // Another call would cost as much and return an answer of the same length.
        return upstreamError({
          status: end.status,
          message: `The answer is longer than ${this.#limits.maxAnswerBytes} bytes.`,
        })
      case 'timed out':
        return upstreamError({
          status: end.status,
          retryable: true,
          timedOut: true,
          message: `The model server did not respond within ${this.#settings.call_timeout_seconds} s.`,
        })
      case 'aborted':
        return upstreamError({ aborted: true, message: 'The call was aborted before a response arrived.' })
    }
  }

  /** The message names the error only by its code, because messages of sockets contain internal addresses. */
  #connectionError({ status, code }: { readonly status: number | null; readonly code: string }): string {
    if (code === 'UND_ERR_CONNECT_TIMEOUT') {
      return `No connection to the model server within ${this.#connectTimeoutMs / 1000} s.`
    }
    if (status !== null)
      return `The model server closed the connection in the middle of its response (${code}).`
    switch (connectionFault(code)) {
      case 'dns':
        return `The name of the model server could not be resolved (${code}).`
      case 'tls':
        return `No secure connection to the model server: TLS failed (${code}).`
      case 'connection':
        return `The connection to the model server failed (${code}).`
    }
  }
}

function withRate(reply: Reply, rate: ServerRate | null): Reply {
  return rate === null ? reply : { ...reply, rate }
}
