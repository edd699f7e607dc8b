/**
 * Lists the messages, codes and finish reasons of model servers and gateways by meaning; failure-kinds.ts and
 * read-completion.ts decide what follows from a match. Also finds the message in the body of an error response: each server
 * puts it in a different place, and any field can have any type.
 */

import { isObject, parseIfJson } from '../json-object.ts'
import { assertFitsHeap, FITS_ANY_HEAP } from '../json-text/read-json.ts'

/** OpenAI, Moonshot and Z.ai respond with 429 and these codes when the account has no credit left. */
export const NO_CREDIT_CODES: readonly (string | null)[] = [
  'insufficient_quota',
  'exceeded_current_quota_error',
  '1113',
]
/** Messages about missing credit contain these texts. Gateways quote a code in the message, and some servers send no code. */
export const NO_CREDIT = /\binsufficient_quota\b|\bused all available credits\b|\binsufficient balance\b/i
/** OpenAI sends this if no credit is left. Google sends it for each rate limit, but with the time of the next try. */
export const NO_QUOTA = /exceeded your current quota/i
/** OpenAI sends this message for a request that exceeds a limit even without other requests, so that waiting does not help. */
export const TOO_LARGE =
  /\brequest too large\b|\btoo large for\b|\breduce (?:the length|your prompt|the size)\b/i

/** LM Studio begins its message like this, with a 400, if its model crashes. The rest may quote anything. */
export const CRASHED = /^the model has crashed\b/i
/**
 * Only the operator can fix the problems of these messages with a 400, such as the limit, location or suspension of an account
 * (Anthropic, Groq, Google, Alibaba), and LiteLLM's budgets and expired keys. LiteLLM's `End User` is the caller's user, so
 * that budget is not included.
 */
export const OPERATORS_400 = [
  // Google and xAI reject a wrong key with these, and Anthropic an account without credit.
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
  // LM Studio sends these if its model was ejected or does not load.
  /^(?:no models loaded|failed to load model|model (?:is )?unloaded)\b/i,
  // Hugging Face sends these if an endpoint is paused.
  /^bad request: invalid state\b/i,
  /^(?:bad request: )?the endpoint is paused\b/i,
  // OpenRouter, DeepSeek, Mistral, Groq, Together, Hugging Face and LiteLLM send these for a model that they do not have, or no
  // longer have. Other servers reject it with 404.
  /^\S+ is not a valid model id\b/i,
  /^model not exist\b/i,
  /^invalid model: /i,
  /^the model \S+ has been decommissioned\b/i,
  /^unable to access non-serverless model\b/i,
  /^the dedicated endpoint for \S+ is not running\b/i,
  /^the requested model '\S+' is not supported by any provider you have enabled\b/i,
  /^(?:400: )?(?:\{'error': ['"])?\/[\w/]{0,40}: invalid model name passed in model=/i,
]
/** LiteLLM puts this before a provider's message, which it quotes as text or as JSON. */
export const LITELLM =
  /^litellm\.\w{1,40}: [\w .:]{1,80} - (?:error code: \d{3} - )?(?:\{.{0,120}?["']message["']: ?["'])?/i

/** Portkey, LiteLLM, and gateways in Go respond with 500 and these messages if they cannot reach the server behind them. */
export const NOT_REACHED =
  /\b(?:ECONNREFUSED|ECONNRESET|EHOSTUNREACH|ENOTFOUND|ETIMEDOUT|UND_ERR_CONNECT_TIMEOUT)\b|exception - connection error|cannot connect to host|connection refused|do request failed/i

/** OpenRouter sends this message, with 404, if no provider of the model supports an option or the format of this request. */
export const NO_PROVIDER = /\bno endpoints found that can handle the requested parameters\b/i

/**
 * Servers that reject a schema, or how JSON was requested, use these words. Some of these messages are indirect: llama.cpp
 * reports only that it failed to initialize samplers, if it cannot start a grammar in the middle of an answer. TensorRT-LLM
 * reports that guided decoding needs a setting. Groq checks the answer itself, and reports `json_validate_failed` if it does
 * not match. Google reports only an invalid argument if a schema is too large.
 */
export const JSON_MODE_WORDS =
  /schema|grammar|guided.?decod|pattern|initialize samplers|response.?format|structured.?output|json.?(?:mode|object|validate)|invalid argument/i

export const POLICY_CODES: readonly unknown[] = [
  'content_filter',
  'content_policy_violation',
  // Alibaba sends this code.
  'data_inspection_failed',
  // Portkey sends this code if a guardrail denies the request or the answer.
  'hooks_failed',
]
/** xAI, OpenAI's reasoning models, LiteLLM and DeepSeek report a breach of policy with these messages. */
export const POLICY_WORDS =
  /^content violates usage guidelines|your prompt was flagged as|\bContentPolicyViolationError\b|^content exists risk/i

/** Servers send more values of `finish_reason` than OpenAI documents, some of them in capital letters. */
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
  // Gateways forward this name of Anthropic and Google.
  max_tokens: 'cut',
  // Mistral sends this if the model's context is full.
  model_length: 'cut',
  // Anthropic and Z.ai send this.
  model_context_window_exceeded: 'cut',
  // vLLM and MiMo send these if the answer repeats itself.
  repetition: 'cut',
  repetition_truncation: 'cut',
  content_filter: 'filtered',
  // Gateways forward this name of Anthropic.
  refusal: 'filtered',
  // Z.ai sends this.
  sensitive: 'filtered',
  // Google sends these five.
  safety: 'filtered',
  recitation: 'filtered',
  blocklist: 'filtered',
  prohibited_content: 'filtered',
  spii: 'filtered',
  // Mistral and OpenRouter send this.
  error: 'failed',
  // vLLM and SGLang send this if they stop or restart.
  abort: 'failed',
  // DeepSeek sends this if it is overloaded.
  insufficient_system_resource: 'failed',
  // Z.ai sends this.
  network_error: 'failed',
}

/** Any other value, such as `stop`, `eos_token` or `tool_calls`, counts as the end of a complete answer. */
export function finishOf(reason: unknown): Finish {
  if (typeof reason !== 'string') return 'complete'
  // Google's OpenAI-compatible API adds Google's own reason: `content_filter: RECITATION`.
  const [word = ''] = reason.toLowerCase().split(':')
  return Object.hasOwn(KNOWN, word) ? (KNOWN[word] ?? 'complete') : 'complete'
}

/** These members may contain a message. The most specific comes first. */
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

/** Deeper members are not searched. Messages of known servers are nested a little less deep. */
const MAX_DEPTH = 5
/** Further errors rarely explain more. */
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

/** Returns what the provider behind OpenRouter sent. OpenRouter's own message is always "Provider returned error". */
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

/**
 * Returns undefined for text that is not JSON. Throws `HeapTooSmall` on a thread whose heap may be too small for the values.
 */
export function parse(text: string): unknown {
  if (text.length > FITS_ANY_HEAP) assertFitsHeap(text)
  return parseIfJson(text)
}
