/**
 * The messages, codes and finish reasons of model servers and gateways, listed by meaning. Those of a new server are added to the
 * lists; failure-kinds.ts and read-completion.ts decide what follows from a match. Also finds the message in the body of an error
 * response: each server puts it in a different place, and any field can have any type.
 */

import { isObject, parseIfJson } from '../json-object.ts'
import { assertFitsHeap, FITS_ANY_HEAP } from '../json-text/read-json.ts'

/** OpenAI, Moonshot and Z.ai respond with 429 and these codes when the account has no credit left. */
export const NO_CREDIT_CODES: readonly (string | null)[] = [
  'insufficient_quota',
  'exceeded_current_quota_error',
  '1113',
]
/** What messages about missing credit contain: gateways quote a code in the message, and some servers send no code at all. */
export const NO_CREDIT = /\binsufficient_quota\b|\bused all available credits\b|\binsufficient balance\b/i
/** OpenAI's message if no credit is left. Google also sends it for each of its rate limits, but with the time of the next try. */
export const NO_QUOTA = /exceeded your current quota/i
/** OpenAI's message for a request that exceeds a limit even without other requests, so that waiting does not help. */
export const TOO_LARGE =
  /\brequest too large\b|\btoo large for\b|\breduce (?:the length|your prompt|the size)\b/i

/** The beginning of LM Studio's message, with a 400, if its model crashes. The rest may quote anything. */
export const CRASHED = /^the model has crashed\b/i
/**
 * Messages with a 400 about problems that only the operator can fix: the limit, location or suspension of an account
 * (Anthropic, Groq, Google, Alibaba), and LiteLLM's budgets and expired keys. LiteLLM's `End User` is the caller's user, so
 * that budget is not included.
 */
export const OPERATORS_400 = [
  // A wrong key (Google, xAI), and no credit left (Anthropic).
  /^api key (?:not valid|not found|expired)/i,
  /^incorrect api key provided/i,
  /^your credit balance is too low/i,
  /^you have reached your specified api usage limits\b/i,
  /^this organization has been disabled\b/i,
  /^organization has been restricted\b/i,
  /^user location is not supported\b/i,
  /^access denied, please make sure your account is in good standing\b/i,
  /^budget has been exceeded!/i,
  /^exceededbudget: (?!end user\b)/i,
  /^authentication error\b.{0,5}\bexpired key\b/i,
  // LM Studio, if its model was ejected or does not load.
  /^(?:no models loaded|failed to load model|model (?:is )?unloaded)\b/i,
  // An endpoint of Hugging Face that is paused.
  /^bad request: invalid state\b/i,
  /^(?:bad request: )?the endpoint is paused\b/i,
  // A model that the server does not have, or no longer has: OpenRouter, DeepSeek, Mistral, Groq, Together, Hugging Face and
  // LiteLLM. Other servers reject it with 404.
  /^\S+ is not a valid model id\b/i,
  /^model not exist\b/i,
  /^invalid model: /i,
  /^the model \S+ has been decommissioned\b/i,
  /^unable to access non-serverless model\b/i,
  /^the dedicated endpoint for \S+ is not running\b/i,
  /^the requested model '\S+' is not supported by any provider you have enabled\b/i,
  /^(?:400: )?(?:\{'error': ['"])?\/[\w/]{0,40}: invalid model name passed in model=/i,
]
/** What LiteLLM puts before a provider's message, which it quotes as text or as JSON. */
export const LITELLM =
  /^litellm\.\w{1,40}: [\w .:]{1,80} - (?:error code: \d{3} - )?(?:\{.{0,120}?["']message["']: ?["'])?/i

/**
 * Messages of gateways that respond with 500 if they cannot reach the server behind them: Portkey, LiteLLM, and gateways in Go.
 */
export const NOT_REACHED =
  /\b(?:ECONNREFUSED|ECONNRESET|EHOSTUNREACH|ENOTFOUND|ETIMEDOUT|UND_ERR_CONNECT_TIMEOUT)\b|exception - connection error|cannot connect to host|connection refused|do request failed/i

/** OpenRouter's message, with 404, if no provider of the model supports an option or the format of this request. */
export const NO_PROVIDER = /\bno endpoints found that can handle the requested parameters\b/i

/**
 * Words in the messages of servers that reject a schema, or the way in which JSON was requested. Some of these messages are
 * indirect: llama.cpp reports only that it failed to initialize samplers, if it cannot start a grammar in the middle of an
 * answer. TensorRT-LLM reports that guided decoding needs a setting. Groq checks the answer itself, and reports
 * `json_validate_failed` if it does not match. Google reports only an invalid argument if a schema is too large.
 */
export const JSON_MODE_WORDS =
  /schema|grammar|guided.?decod|pattern|initialize samplers|response.?format|structured.?output|json.?(?:mode|object|validate)|invalid argument/i

/** The codes of errors about a breach of content policy. */
export const POLICY_CODES: readonly unknown[] = [
  'content_filter',
  'content_policy_violation',
  // Sent by Alibaba.
  'data_inspection_failed',
  // Sent by Portkey if a guardrail denies the request or the answer.
  'hooks_failed',
]
/**
 * Messages about a breach of content policy that come without such a code: those of xAI, OpenAI's reasoning models, LiteLLM and
 * DeepSeek.
 */
export const POLICY_WORDS =
  /^content violates usage guidelines|your prompt was flagged as|\bContentPolicyViolationError\b|^content exists risk/i

/** What a `finish_reason` means. Servers send more values than OpenAI documents, some of them in capital letters. */
type Finish =
  | 'complete'
  /** A length limit of the request, the model or its context was reached, or the server stopped endless repetition. */
  | 'cut'
  /** A content filter stopped or withheld the answer. */
  | 'filtered'
  /** The server gave up in the middle of the answer. */
  | 'failed'

const KNOWN: Readonly<Record<string, Finish>> = {
  length: 'cut',
  // The names of Anthropic and Google, which gateways forward.
  max_tokens: 'cut',
  // Sent by Mistral if the model's context is full.
  model_length: 'cut',
  // Sent by Anthropic and Z.ai.
  model_context_window_exceeded: 'cut',
  // Sent by vLLM and MiMo if the answer repeats itself.
  repetition: 'cut',
  repetition_truncation: 'cut',
  content_filter: 'filtered',
  // Anthropic's name, which gateways forward.
  refusal: 'filtered',
  // Sent by Z.ai.
  sensitive: 'filtered',
  // These five are sent by Google.
  safety: 'filtered',
  recitation: 'filtered',
  blocklist: 'filtered',
  prohibited_content: 'filtered',
  spii: 'filtered',
  // Sent by Mistral and OpenRouter.
  error: 'failed',
  // Sent by vLLM and SGLang if they stop or restart.
  abort: 'failed',
  // Sent by DeepSeek if it is overloaded.
  insufficient_system_resource: 'failed',
  // Sent by Z.ai.
  network_error: 'failed',
}

/** Any other value, such as `stop`, `eos_token` or `tool_calls`, counts as the end of a complete answer. */
export function finishOf(reason: unknown): Finish {
  if (typeof reason !== 'string') return 'complete'
  // Google's OpenAI-compatible API adds Google's own reason: `content_filter: RECITATION`.
  const [word = ''] = reason.toLowerCase().split(':')
  return Object.hasOwn(KNOWN, word) ? (KNOWN[word] ?? 'complete') : 'complete'
}

/** The members that may contain a message, most specific first. */
const MEMBERS = [
  'message',
  'msg',
  'error',
  'errors',
  'detail',
  'details',
  'error_description',
  'reason',
  'title',
  // Portkey's gateway uses this name if it cannot reach the server behind it.
  'html-message',
]

/** Messages of known servers are nested a little less deep. */
const MAX_DEPTH = 5
/** The maximum number of errors that are joined, because more would not explain more. */
const MAX_ERRORS = 8

/** Returns the server's message in any parsed JSON, unmasked; null if there is none. */
export function errorWords(value: unknown, depth = 0): string | null {
  if (typeof value === 'string') return value.trim() === '' ? null : value
  if (typeof value !== 'object' || value === null || depth === MAX_DEPTH) return null
  if (Array.isArray(value)) {
    const all = value.slice(0, MAX_ERRORS).map((each) => errorWords(each, depth + 1))
    return all.filter((words) => words !== null).join('; ') || null
  }
  const provider = providerError(value)
  const theirs = provider === null ? null : errorWords(provider, depth + 1)
  if (theirs !== null) return theirs
  for (const name of MEMBERS) {
    const words = errorWords((value as Readonly<Record<string, unknown>>)[name], depth + 1)
    if (words !== null) return withPlace(value, words)
  }
  return null
}

/**
 * Returns what the provider behind OpenRouter sent; null if there is nothing. It is in `metadata.raw`, often as JSON text.
 * OpenRouter's own message is always "Provider returned error".
 */
export function providerError(error: object): unknown {
  if (!('metadata' in error) || !isObject(error.metadata)) return null
  const { raw } = error.metadata
  if (typeof raw !== 'string') return raw ?? null
  return parse(raw) ?? raw
}

/** FastAPI puts the location of a problem next to its message: `{"loc":["body","messages",0],"msg":"Field required"}`. */
function withPlace(error: object, words: string): string {
  const place = 'loc' in error && Array.isArray(error.loc) ? error.loc : []
  const path = place.filter((step) => typeof step === 'string' || typeof step === 'number').join('.')
  return path === '' ? words : `${path}: ${words}`
}

/** Returns undefined for text that is not JSON. Throws `HeapTooSmall` on a thread whose heap may be too small for the values. */
export function parse(text: string): unknown {
  if (text.length > FITS_ANY_HEAP) assertFitsHeap(text)
  return parseIfJson(text)
}
