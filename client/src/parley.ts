/** The client: where the server is, who calls it, and how patient to be. */
import { type Clock, systemClock } from './clock.ts'
import { fromEnvironment } from './environment.ts'
import { ConfigurationError } from './errors.ts'
import { type AnswerInfo, type CallOptions, Exchange } from './exchange.ts'
import type { Me } from './job.ts'
import { KnownLimits } from './limits.ts'
import { Messages } from './messages.ts'

export interface ParleyOptions {
  /** `PARLEY_URL` of the environment if absent, and without it `http://127.0.0.1:8080`. */
  readonly baseUrl?: string | undefined
  /** `PARLEY_API_KEY` of the environment if absent. */
  readonly apiKey?: string | undefined
  /** How often a call is tried again that failed for a while: 4 times if absent. */
  readonly maxRetries?: number | undefined
  /** Seconds for each try: 30 if absent. A single create has its `timeout` on top. */
  readonly requestTimeout?: number | undefined
  /** Sent with each request, for what stands in front of the server. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** In place of `JSON.parse`, for answers with numbers that need every digit. */
  readonly parseJson?: ((text: string) => unknown) | undefined
  /** Called with each answer: for its text, its headers, or a log. */
  readonly onAnswer?: ((answer: AnswerInfo) => void) | undefined
  /** In place of the runtime's own. */
  readonly fetch?: typeof globalThis.fetch | undefined
  /** Time, for tests that do not want to wait. */
  readonly clock?: Clock | undefined
}

const LOCAL = 'http://127.0.0.1:8080'
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
 * Every duration is in seconds, as in the interface.
 */
export class Parley {
  readonly messages: Messages
  readonly #limits: KnownLimits

  constructor(options: ParleyOptions = {}) {
    const exchange = new Exchange({
      baseUrl: checkedUrl(options.baseUrl ?? fromEnvironment('PARLEY_URL') ?? LOCAL),
      apiKey: checkedKey(options.apiKey ?? fromEnvironment('PARLEY_API_KEY')),
      headers: options.headers ?? {},
      // Called as a function of its own, which browsers insist on.
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

  /** What the key may do, and what is left of it. */
  me(options: CallOptions = {}): Promise<Me> {
    return this.#limits.me(options)
  }
}

/** Without a slash at its end; it may have a path, where the server stands behind one. */
function checkedUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new ConfigurationError(`baseUrl must be an http or https address, such as ${LOCAL}`)
  }
  if (url.username !== '' || url.search !== '' || url.hash !== '') {
    throw new ConfigurationError('baseUrl must have no user name, query or fragment')
  }
  return `${url.origin}${url.pathname}`.replace(/\/+$/, '')
}

function checkedKey(key: string | undefined): string {
  if (key === undefined || key === '') {
    throw new ConfigurationError('there is no API key; give { apiKey }, or set PARLEY_API_KEY')
  }
  // What no header can hold would else be reported, with the key, by every runtime in other words.
  if (!/^[\x21-\x7e]+$/.test(key)) throw new ConfigurationError('the API key has characters that no key has')
  return key
}
