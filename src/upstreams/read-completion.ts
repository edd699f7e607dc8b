/**
 * Reads a model server's response into a reply. It trusts nothing: every field is checked before use, and messages are masked
 * and truncated before they are stored or shown.
 */
import type { ChatCompletion, ChatCompletionMessage } from 'openai/resources/chat/completions'
import { GENERATION_FAILED, NO_CHOICES, NO_FLEX_CAPACITY, NO_TEXT } from './failure-kinds.ts'
import { MASKED_CHARACTERS, MAX_UPSTREAM_MESSAGE_LENGTH, type Mask } from './mask.ts'
import type { Reply, TokenCount, UpstreamError } from './model-server.ts'
import { readRetryDelay } from './retry-after.ts'
import {
  errorWords,
  finishOf,
  JSON_MODE_WORDS,
  NO_PROVIDER,
  POLICY_CODES,
  POLICY_WORDS,
  parse,
  providerError,
} from './vendor-errors.ts'

type CompletionUsage = NonNullable<ChatCompletion['usage']>
/** The compiler checks the names of the fields against the wire format, but the values can be anything. */
type Untrusted<T> = { readonly [name in keyof T]?: unknown }

interface WireError {
  readonly message: string
  readonly code: string | number
  readonly type: string
  readonly param: string
  readonly error: object | string
  readonly metadata: object
  readonly details: readonly object[]
}

/** Connection errors have no status and are not judged here. */
function isRetryable(status: number): boolean {
  return (
    [408, 409, GENERATION_FAILED, 429, NO_FLEX_CAPACITY].includes(status) || (status >= 500 && status <= 599)
  )
}

export function upstreamError(
  fields: Pick<UpstreamError, 'message'> & Partial<Omit<UpstreamError, 'kind' | 'message'>>,
): UpstreamError {
  return {
    kind: 'error',
    retryable: false,
    retryAfterMs: null,
    status: null,
    code: null,
    connection: null,
    rejectsJsonMode: false,
    aborted: false,
    timedOut: false,
    ...fields,
  }
}

export function readCompletion(status: number, body: string, mask: Mask): Reply {
  const completion = fields<ChatCompletion & { error: unknown }>(parse(body))
  const choice = fields<ChatCompletion.Choice & { error: unknown }>(
    Array.isArray(completion?.choices) ? completion.choices[0] : undefined,
  )
  const usage = fields<CompletionUsage>(completion?.usage)
  const tokens = usage === null ? NO_TOKENS : readTokens(usage)
  // Gateways report a failure of the server behind them as an error in a 200, next to the choices or inside a choice.
  const error = fields<WireError>(choice?.error) ?? fields<WireError>(completion?.error)
  if (error !== null) return readEmbeddedError(status, error, tokens, mask)
  // LM Studio responds to a wrong path with 200 and an error that is only text.
  if (choice === null && typeof completion?.error === 'string') {
    return readEmbeddedError(status, { message: completion.error }, tokens, mask)
  }
  const message = fields<ChatCompletionMessage>(choice?.message)
  const finish = finishOf(choice?.finish_reason)
  if (typeof message?.refusal === 'string' && message.refusal !== '') {
    return { kind: 'refused', message: mask(message.refusal), status, tokens }
  }
  // Google omits the message if its filter stopped the answer.
  if (finish === 'filtered') {
    return { kind: 'refused', message: 'The content filter stopped the answer.', status, tokens }
  }
  if (finish === 'failed') {
    const what = `The model server stopped in the middle of its answer (finish_reason: ${choice?.finish_reason}).`
    return upstreamError({ status, tokens, retryable: true, message: what })
  }
  const isCompletion = completion?.object === 'chat.completion'
  if (choice === null && isCompletion) {
    return upstreamError({ status, tokens, retryable: true, message: NO_CHOICES })
  }
  if (message === null && finish !== 'cut') {
    // Gateways such as OpenRouter send blanks while they wait for the server behind them, and nothing else if that server
    // fails.
    const retryable = body.trim() === ''
    return upstreamError({ status, tokens, retryable, message: 'The response is not a chat completion.' })
  }
  const content = message?.content
  const text = typeof content === 'string' ? content : joinParts(content)
  if (finish !== 'cut') {
    if (text !== null) return { kind: 'answer', text, tokens }
    const retryable = isCompletion && message !== null && isEmpty(message)
    return upstreamError({ status, tokens, retryable, message: NO_TEXT })
  }
  // The limit belongs to the job or the model, so another call would cost as much and reach the limit again. The text so far is
  // delivered. An empty answer is a failure: the model used its limit for reasoning. vLLM then sends null, and Google may send
  // no message.
  if (text === null || text === '') {
    return upstreamError({
      status,
      tokens,
      message: 'The model reached its length limit before it answered (finish_reason: length).',
      truncated: true,
    })
  }
  return { kind: 'answer', text, tokens, truncated: true }
}

function isEmpty(message: object): boolean {
  return Object.entries(message).every(
    ([name, value]) =>
      name === 'role' || value === null || value === '' || (Array.isArray(value) && value.length === 0),
  )
}

interface WirePart {
  readonly type: string
  readonly text: string
}

/**
 * Joins the text parts of a content array, and omits other parts, such as reasoning. Without a text part, the result is null.
 */
function joinParts(content: unknown): string | null {
  if (!Array.isArray(content)) return null
  let joined: string | null = null
  for (const part of content) {
    const { type, text } = fields<WirePart>(part) ?? {}
    if ((type === 'text' || type === 'output_text') && typeof text === 'string')
      joined = (joined ?? '') + text
  }
  return joined
}

export interface LargeCompletion {
  readonly status: number
  readonly body: Uint8Array
}

/** Reads a large response on a thread of the CPU pool, which does not know the secrets: `maskReply` must mask the result. */
export function readLargeCompletion({ status, body }: LargeCompletion): Reply {
  const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('utf8')
  return readCompletion(status, text, (message) => message.slice(0, MASKED_CHARACTERS))
}

/** Masks the message and the code of a reply. Answers are not changed. */
export function maskReply(reply: Reply, mask: Mask): Reply {
  if (reply.kind === 'answer') return reply
  const message = mask(reply.message)
  if (reply.kind === 'refused' || reply.code === null) return { ...reply, message }
  return { ...reply, message, code: mask(reply.code) }
}

/** If the body was too long, `text` is null. */
export function readFailure(
  status: number,
  text: string | null,
  retryAfterMs: number | null,
  mask: Mask,
): Reply {
  const body = text === null ? undefined : parse(text)
  // Some servers send the error in an array of one element.
  const outer = fields<WireError>(Array.isArray(body) ? body[0] : body)
  const error = fields<WireError>(outer?.error) ?? outer
  const sent = errorWords(outer) ?? plainText(body === undefined ? text : null)
  const message = sent === null ? `The model server responded with ${status}.` : mask(sent)
  if (error !== null && isPolicyBreach(status, error, sent)) {
    return { kind: 'refused', message, status, tokens: NO_TOKENS }
  }
  return upstreamError({
    status,
    message,
    code: codeOf(error, mask),
    retryable: isRetryable(status),
    retryAfterMs: retryAfterMs ?? readRetryDelay(error?.details),
    rejectsJsonMode: isAboutJsonMode(status, error, sent),
  })
}

const STATUS = /^[45]\d\d$/

function readEmbeddedError(
  status: number,
  error: Untrusted<WireError>,
  tokens: TokenCount,
  mask: Mask,
): Reply {
  const sent = errorWords(error)
  const message = sent === null ? 'The model server responded with an error.' : mask(sent)
  // A number is the status that the gateway received, which is more specific than the type. Some gateways write it as text.
  const isStatus =
    typeof error.code === 'number' || (typeof error.code === 'string' && STATUS.test(error.code))
  const received = isStatus ? Number(error.code) : null
  if (isPolicyBreach(received, error, sent)) return { kind: 'refused', message, status, tokens }
  return upstreamError({
    status,
    tokens,
    message,
    code: received === null ? codeOf(error, mask) : String(received),
    retryable: received !== null && isRetryable(received),
    rejectsJsonMode: received !== null && isAboutJsonMode(received, error, sent),
  })
}

function isPolicyBreach(status: number | null, error: Untrusted<WireError>, sent: string | null): boolean {
  if ((status === 400 || status === 403) && POLICY_WORDS.test(beginOf(sent))) return true
  if (POLICY_CODES.includes(error.code) || POLICY_CODES.includes(error.type)) return true
  // OpenRouter's moderation rejects a conversation with 403.
  if (typeof fields<{ flagged_input: string }>(error.metadata)?.flagged_input === 'string') return true
  const provider = fields<WireError>(providerError(error))
  if (provider === null) return false
  const { code, type } = fields<WireError>(provider.error) ?? provider
  return POLICY_CODES.includes(code) || POLICY_CODES.includes(type)
}

const CODE = /^[\w.:-]{1,64}$/

/** Returns the server's code for the error, or its type. Numbers are ignored, because they repeat the status. */
function codeOf(error: Untrusted<WireError> | null, mask: Mask): string | null {
  for (const value of [error?.code, error?.type]) {
    if (typeof value === 'string' && CODE.test(value)) return mask(value)
  }
  return null
}

/** @param sent the unmasked message, because the decisive word, such as `xgrammar`, may be masked */
function isAboutJsonMode(status: number, error: Untrusted<WireError> | null, sent: string | null): boolean {
  if (status === 404) return NO_PROVIDER.test(sent ?? '')
  if (status !== 400 && status !== 422 && status !== 500) return false
  return [error?.param, error?.code, beginOf(sent)].some(
    (text) => typeof text === 'string' && JSON_MODE_WORDS.test(text),
  )
}

/** The end of a long message is not examined, because it may echo the conversation. */
function beginOf(sent: string | null): string {
  return sent?.trimStart().slice(0, MAX_UPSTREAM_MESSAGE_LENGTH) ?? ''
}

/** Returns a plain text, which may explain the error; null for an HTML page. */
function plainText(text: string | null): string | null {
  if (text === null || text.trim() === '' || text.trimStart().startsWith('<')) return null
  return text
}

export const NO_TOKENS: TokenCount = { input: 0, output: 0 }

export function sumOfTokens(some: TokenCount, more: TokenCount): TokenCount {
  const cached = (some.cached ?? 0) + (more.cached ?? 0)
  return {
    input: some.input + more.input,
    output: some.output + more.output,
    ...(cached > 0 && { cached }),
  }
}

function readTokens({
  prompt_tokens,
  completion_tokens,
  total_tokens,
  prompt_tokens_details,
  cached_tokens,
}: Untrusted<CompletionUsage & { cached_tokens: number }>): TokenCount {
  const details = fields<{ cached_tokens: number }>(prompt_tokens_details)
  // Moonshot puts the cached tokens next to the counts instead of in the details.
  const cached = readCount(details?.cached_tokens ?? cached_tokens)
  const prompt = readCount(prompt_tokens)
  // xAI sometimes does not include the cached tokens in those of the prompt.
  const input = cached > prompt ? prompt + cached : prompt
  // Google and xAI include the tokens of reasoning, which cost as much as those of the answer, only in the total.
  const notInput = input > 0 ? readCount(total_tokens) - input : 0
  const output = Math.max(readCount(completion_tokens), notInput)
  return { input, output, ...(cached > 0 && { cached }) }
}

function readCount(value: unknown): number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : 0
}

function fields<T>(value: unknown): Untrusted<T> | null {
  return typeof value === 'object' && value !== null ? (value as Untrusted<T>) : null
}
