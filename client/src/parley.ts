/** Defines the client and its configuration. */

import { ApiPromise } from './api-promise.ts'
import { type Clock, systemClock } from './clock.ts'
import { fromEnvironment } from './environment.ts'
import { ConfigurationError } from './errors.ts'
import { type AnswerInfo, type CallOptions, Exchange, type HeaderOptions } from './exchange.ts'
import type { Me } from './job.ts'
import { KnownLimits } from './limits.ts'
import { type Logger, type LogLevel, leveledLogger } from './logger.ts'
import { Messages } from './messages.ts'
import { userAgent } from './user-agent.ts'

export interface ParleyOptions {
  /**
   * Calls go to the server at this URL. If absent, the environment variable `PARLEY_URL` is used, or `http://127.0.0.1:8080`.
   */
  readonly baseUrl?: string | undefined
  /** Authenticates the calls. If absent, the environment variable `PARLEY_API_KEY` is used. */
  readonly apiKey?: string | undefined
  /** Limits how often a call is retried after temporary failures: 4 times if absent. */
  readonly maxRetries?: number | undefined
  /** Limits each try to this many seconds, 30 if absent. The time for which the server may wait for jobs is added. */
  readonly requestTimeout?: number | undefined
  /** Adds headers to each request, for example for a proxy in front of the server. */
  readonly headers?: HeaderOptions | undefined
  /** Replaces `JSON.parse`, for answers with large numbers. */
  readonly parseJson?: ((text: string) => unknown) | undefined
  /** Receives the log: a logger such as `console`, pino or winston. If it is absent and a level is set, `console` is used. */
  readonly logger?: Logger | undefined
  /**
   * Sets the level of the log. If absent, the environment variable `PARLEY_LOG` is used. If that is not set, the level is
   * `info` with a logger, and `off` without.
   */
  readonly logLevel?: LogLevel | undefined
  /** Called with each response, for example to read its headers. */
  readonly onAnswer?: ((answer: AnswerInfo) => void) | undefined
  /** Replaces the runtime's `fetch`. */
  readonly fetch?: typeof globalThis.fetch | undefined
  /** Replaces the clock, for tests. */
  readonly clock?: Clock | undefined
}

const DEFAULT_URL = 'http://127.0.0.1:8080'
const MAX_RETRIES = 4
const REQUEST_TIMEOUT_S = 30

/**
 * ```ts
 * const parley = new Parley({ baseUrl: 'https://parley.example.com', apiKey: 'prl_…' })
 * const job = await parley.messages.createAndWait({
 *   model: 'gpt-auto', response_format: { format: 'text' }, messages: [{ role: 'user', content: 'Hello!' }],
 * })
 * job.result.response_content // a string
 * ```
 *
 * All durations are in seconds, as in the HTTP API.
 */
export class Parley {
  readonly messages: Messages
  readonly #limits: KnownLimits

  constructor(options: ParleyOptions = {}) {
    const exchange = new Exchange({
      baseUrl: checkedUrl(options.baseUrl ?? fromEnvironment('PARLEY_URL') ?? DEFAULT_URL),
      apiKey: checkedKey(options.apiKey ?? fromEnvironment('PARLEY_API_KEY')),
      headers: { 'user-agent': userAgent(), ...options.headers },
      logger: leveledLogger(options.logger, options.logLevel),
      // Browsers throw if `fetch` is called as a method of another object.
      fetch: options.fetch ?? ((input, init) => globalThis.fetch(input, init)),
      parseJson: options.parseJson ?? JSON.parse,
      clock: options.clock ?? systemClock,
      maxRetries: options.maxRetries ?? MAX_RETRIES,
      requestTimeout: options.requestTimeout ?? REQUEST_TIMEOUT_S,
      onAnswer: options.onAnswer,
    })
    this.#limits = new KnownLimits(exchange)
    this.messages = new Messages(exchange, this.#limits)
  }

  /** Returns the account, limits and usage of the API key. */
  me(options: CallOptions = {}): ApiPromise<Me> {
    return new ApiPromise(this.#limits.me(options))
  }
}

/** Removes a trailing slash. The URL may have a path, because a proxy may serve Parley below a path. */
function checkedUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new ConfigurationError(`baseUrl must be an http or https URL, for example ${DEFAULT_URL}`)
  }
  if (url.username !== '' || url.search !== '' || url.hash !== '') {
    throw new ConfigurationError('baseUrl must not contain a user name, query or fragment')
  }
  return `${url.origin}${url.pathname}`.replace(/\/+$/, '')
}

function checkedKey(key: string | undefined): string {
  if (key === undefined || key === '') {
    throw new ConfigurationError('no API key is set; pass { apiKey }, or set PARLEY_API_KEY')
  }
  // Without this check, runtimes would reject the header with an error that contains the key.
  if (!/^[\x21-\x7e]+$/.test(key))
    throw new ConfigurationError('the API key contains characters that are not valid in a key')
  return key
}
