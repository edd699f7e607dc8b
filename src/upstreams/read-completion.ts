/**
 * What a model server's response says, as a reply. Nothing it sends is trusted: every field is looked at before use, and
 * its words are masked and cut before they go anywhere. Pure.
 */
import type { ChatCompletion, ChatCompletionMessage } from 'openai/resources/chat/completions'
import type { Reply, TokenCount, UpstreamError } from './model-server.ts'

/** Enough of an upstream's message to act on. */
export const UPSTREAM_WORDS = 300

/** More of a message is not even looked through: it is to be cut to far less. */
const MASKED_CHARACTERS = 65_536

const POLICY_CODES: readonly unknown[] = ['content_filter', 'content_policy_violation']

/** Makes an upstream's words fit to be shown: the key masked, one line, cut. */
export type Mask = (words: string) => string

/** The compiler holds the names to the wire format; the values are whatever the server sent. */
type Untrusted<T> = { readonly [name in keyof T]?: unknown }

interface WireError {
  readonly message: string
  readonly code: string | number
  readonly type: string
  readonly detail: string
  readonly error: object | string
}

/** Connection errors are not here: they have no status. */
export function isWorthRetrying(status: number): boolean {
  return status === 408 || status === 409 || status === 429 || (status >= 500 && status <= 599)
}

export function upstreamError(
  about: Pick<UpstreamError, 'message'> & Partial<Omit<UpstreamError, 'kind' | 'message'>>,
): UpstreamError {
  return {
    kind: 'trouble',
    retryable: false,
    retryAfterMs: null,
    status: null,
    aborted: false,
    timedOut: false,
    ...about,
  }
}

/** Reads the body of a response whose status says success. */
export function readCompletion(status: number, text: string, mask: Mask): Reply {
  const completion = fields<ChatCompletion & { error: unknown }>(parse(text))
  const choice = fields<ChatCompletion.Choice & { error: unknown }>(
    Array.isArray(completion?.choices) ? completion.choices[0] : undefined,
  )
  const tokens = readTokens(completion?.usage)
  // Gateways report a failure behind them as an error inside a 200, beside the choices or in one.
  const error = fields<WireError>(choice?.error) ?? fields<WireError>(completion?.error)
  if (error !== null) return readEmbeddedError(status, error, tokens, mask)
  const message = fields<ChatCompletionMessage>(choice?.message)
  if (choice === null || message === null) {
    return upstreamError({ status, message: 'The answer is no chat completion.' })
  }
  if (typeof message.refusal === 'string' && message.refusal !== '') {
    return { kind: 'refused', message: mask(message.refusal), status, tokens }
  }
  if (choice.finish_reason === 'content_filter') {
    return { kind: 'refused', message: 'The content filter stopped the answer.', status, tokens }
  }
  if (typeof message.content !== 'string') {
    return upstreamError({ status, tokens, message: 'The chat completion has no text content.' })
  }
  if (choice.finish_reason !== 'length') return { kind: 'answer', text: message.content, tokens }
  // Nobody asked for a limit, so this is the model's own, and another call would be paid for and end there too. What
  // came is delivered; only nothing at all (a model that spent its limit on thinking) is a failure.
  if (message.content === '') {
    return upstreamError({
      status,
      tokens,
      message: 'The model reached its length limit before it answered.',
    })
  }
  return { kind: 'answer', text: message.content, tokens, truncated: true }
}

/** Reads a response whose status says failure. `text` is null where its body was too long to be of use. */
export function readFailure(status: number, text: string | null, wait: number | null, mask: Mask): Reply {
  const body = text === null ? undefined : parse(text)
  // Some servers put the error into an array of one.
  const outer = fields<WireError>(Array.isArray(body) ? body[0] : body)
  const error = fields<WireError>(outer?.error) ?? outer
  const words = wordsOf(outer, error) ?? plainWords(body === undefined ? text : null)
  const message = words === null ? `The model server answered ${status}.` : mask(words)
  if (error !== null && isPolicyBreach(error)) {
    return { kind: 'refused', message, status, tokens: NO_TOKENS }
  }
  return upstreamError({ status, message, retryable: isWorthRetrying(status), retryAfterMs: wait })
}

/** What Retry-After asks for, in milliseconds from now; null where there is none to be understood. */
export function readRetryAfter(
  headers: { readonly [name: string]: string | string[] | undefined },
  nowMs: number,
): number | null {
  const ms = headers['retry-after-ms']
  if (typeof ms === 'string' && /^\d+(\.\d+)?$/.test(ms)) return Math.ceil(Number(ms))
  const value = headers['retry-after']
  if (typeof value !== 'string') return null
  if (/^\d+(\.\d+)?$/.test(value)) return Math.ceil(Number(value) * 1000)
  const date = Date.parse(value)
  return Number.isNaN(date) ? null : Math.max(0, date - nowMs)
}

/** A mask for a server's words: they may echo the request's headers, and with them our key. */
export function maskFor(key: string | null): Mask {
  return (words) => {
    let masked = words
      .slice(0, MASKED_CHARACTERS)
      .replace(/[\s\p{Cc}]+/gu, ' ')
      .trim()
    if (key !== null) {
      // Where the words come escaped, they are still the key.
      for (const spelling of new Set([key, encodeURIComponent(key), JSON.stringify(key).slice(1, -1)])) {
        masked = masked.replaceAll(spelling, '***')
      }
    }
    masked = masked
      .replace(/\b(bearer|basic)\s+[^\s"',;]+/gi, '$1 ***')
      .replace(
        /\b(authorization|(?:x-)?api-key)(["']?\s*[:=]\s*["']?)(?!bearer|basic)[^\s"',;]+/gi,
        '$1$2***',
      )
      .replace(/\bsk-[\w*.-]{4,}/g, '***')
    return cut(masked, UPSTREAM_WORDS)
  }
}

function readEmbeddedError(
  status: number,
  error: Untrusted<WireError>,
  tokens: TokenCount,
  mask: Mask,
): Reply {
  const words = wordsOf(null, error)
  const message = words === null ? 'The model server answered with an error.' : mask(words)
  if (isPolicyBreach(error)) return { kind: 'refused', message, status, tokens }
  const retryable = typeof error.code === 'number' && isWorthRetrying(error.code)
  return upstreamError({ status, tokens, message, retryable })
}

function isPolicyBreach(error: Untrusted<WireError>): boolean {
  return POLICY_CODES.includes(error.code) || POLICY_CODES.includes(error.type)
}

function wordsOf(outer: Untrusted<WireError> | null, error: Untrusted<WireError> | null): string | null {
  for (const words of [error?.message, outer?.error, error?.detail]) {
    if (typeof words === 'string' && words.trim() !== '') return words
  }
  return null
}

/** A short plain text may explain something; a page of HTML explains nothing. */
function plainWords(text: string | null): string | null {
  if (text === null || text.trim() === '' || text.trimStart().startsWith('<')) return null
  return text
}

const NO_TOKENS: TokenCount = { input: 0, output: 0 }

function readTokens(usage: unknown): TokenCount {
  const counted = fields<NonNullable<ChatCompletion['usage']>>(usage)
  if (counted === null) return NO_TOKENS
  return { input: count(counted.prompt_tokens), output: count(counted.completion_tokens) }
}

function count(value: unknown): number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : 0
}

function fields<T>(value: unknown): Untrusted<T> | null {
  return typeof value === 'object' && value !== null ? (value as Untrusted<T>) : null
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function cut(text: string, length: number): string {
  if (text.length <= length) return text
  // Not through the middle of a character outside the basic plane.
  const end = /[\uD800-\uDBFF]/.test(text.charAt(length - 2)) ? length - 2 : length - 1
  return `${text.slice(0, end)}…`
}
