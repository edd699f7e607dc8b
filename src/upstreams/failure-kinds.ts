/**
 * Decides who is responsible for a failed call: the model server, which jobs wait for, or the job. Pure.
 *
 * | kind | what it is | whom it counts against |
 * |---|---|---|
 * | `unreachable` | no connection could be made: refused, DNS, TLS, no route, connect timeout | the server |
 * | `overloaded` | 429, 498, 503, 529 | the server |
 * | `broken` | a connection that was reset or closed, 408, 409, 502, 504, a proxy's 520 to 526 and 530, 500 of a gateway that reached nothing, and a blank 200 | the server; the job too, where others succeed in between |
 * | `misconfigured` | redirects, 401 to 405, 407, 410, 412, no quota left, and a 400 that says as much | the operator; the job too, where others succeed in between |
 * | `failing` | 424, 500 and other 5xx, call timeouts, an empty answer | the job, unless the circuit breaker is open or other jobs fail too while none succeeds |
 * | `too large` | 429 because this request is too large | the job |
 * | `final` | anything else: another call would end in the same way | the job, at once |
 */
import type { ConnectionFault, FailureKind, Trouble, UpstreamError } from './model-server.ts'

/** The status of TGI, SageMaker and Bedrock if the model fails during a call, for example because it runs out of memory. */
export const GENERATION_FAILED = 424
/** Groq's status if the tier `flex` has no capacity. */
export const NO_FLEX_CAPACITY = 498
/**
 * Statuses that the operator must fix: an address that redirects, as to a login page; key, payment, permission, path or model; a
 * path that only serves pages (405), a proxy's password (407), a model that has reached its end of life (410, NVIDIA), and the
 * budget (412, Portkey and Fireworks).
 */
const OF_OPERATOR: readonly number[] = [301, 302, 303, 307, 308, 401, 402, 403, 404, 405, 407, 410, 412]
/** OpenRouter's message, with 404, if no provider of the model supports an option or the format of this request. */
export const NO_PROVIDER = /\bno endpoints found that can handle the requested parameters\b/i
/** What answers without choices or text are called. Google sends them now and then, and an answer with the next call. */
export const NO_CHOICES = 'The chat completion has no choices.'
export const NO_TEXT = 'The chat completion has no text content.'
/** OpenAI, Moonshot and Z.ai respond with 429 and these codes when the account has no credit left. */
const NO_CREDIT_CODES: readonly (string | null)[] = [
  'insufficient_quota',
  'exceeded_current_quota_error',
  '1113',
]
/** What gateways make of these codes, and what xAI, Moonshot and Z.ai say. */
const NO_CREDIT = /\binsufficient_quota\b|\bused all available credits\b|\binsufficient balance\b/i
/** OpenAI's message for that. Google uses the same words for each of its rates, but adds when to try again. */
const NO_QUOTA = /exceeded your current quota/i
/** OpenAI's message for a request that exceeds a limit even without other requests, so that waiting does not help. */
const TOO_LARGE = /\brequest too large\b|\btoo large for\b|\breduce (?:the length|your prompt|the size)\b/i

/** What LM Studio says in a 400 if its model crashes. What follows may quote anything. */
const CRASHED = /^the model has crashed\b/i
/**
 * Messages that come with 400, but that only the operator can do something about: an account's limit, place or suspension
 * (Anthropic, Groq, Google, Alibaba), and LiteLLM's own budgets and expired keys. An `End User` is the caller's.
 */
const OPERATORS_400 = [
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
  // A model that the server does not have, or no longer, which others reject with 404: OpenRouter, DeepSeek, Mistral, Groq,
  // Together, Hugging Face and LiteLLM.
  /^\S+ is not a valid model id\b/i,
  /^model not exist\b/i,
  /^invalid model: /i,
  /^the model \S+ has been decommissioned\b/i,
  /^unable to access non-serverless model\b/i,
  /^the dedicated endpoint for \S+ is not running\b/i,
  /^the requested model '\S+' is not supported by any provider you have enabled\b/i,
  /^(?:400: )?(?:\{'error': ['"])?\/[\w/]{0,40}: invalid model name passed in model=/i,
]
/** What LiteLLM writes before the words of a provider, which it quotes as they are or as JSON. */
const LITELLM =
  /^litellm\.\w{1,40}: [\w .:]{1,80} - (?:error code: \d{3} - )?(?:\{.{0,120}?["']message["']: ?["'])?/i

/** Messages of gateways that respond with 500 if they cannot reach the server behind them: Portkey, LiteLLM, and those in Go. */
const NOT_REACHED =
  /\b(?:ECONNREFUSED|ECONNRESET|EHOSTUNREACH|ENOTFOUND|ETIMEDOUT|UND_ERR_CONNECT_TIMEOUT)\b|exception - connection error|cannot connect to host|connection refused|do request failed/i

/** The parts of an error that determine its kind. */
export type FailureFacts = Pick<
  UpstreamError,
  'status' | 'message' | 'code' | 'connection' | 'timedOut' | 'retryable' | 'retryAfterMs'
>

export function failureKind(error: FailureFacts): FailureKind {
  const status = statedStatus(error)
  if (status !== null && OF_OPERATOR.includes(status) && !NO_PROVIDER.test(error.message)) {
    return 'misconfigured'
  }
  if (status === 400) {
    const said = error.message.replace(LITELLM, '')
    if (OPERATORS_400.some((words) => words.test(said))) return 'misconfigured'
    if (CRASHED.test(said)) return 'failing'
  }
  if (!error.retryable) return 'final'
  if (error.timedOut || [NO_CHOICES, NO_TEXT].includes(error.message)) return 'failing'
  if (status === null) return connectionKind(error)
  return status >= 300 ? statusKind(status, error) : 'broken'
}

/** Some gateways respond with 200 although the server behind them failed. The error's code is then the actual status. */
function statedStatus({ status, code }: FailureFacts): number | null {
  if (status === null || status >= 300) return status
  const embedded = Number(code)
  return embedded >= 400 && embedded <= 599 ? embedded : status
}

function connectionKind({ connection, code }: FailureFacts): FailureKind {
  if (connection !== 'connection') return 'unreachable'
  return code === null || isBroken(code) ? 'broken' : 'unreachable'
}

function statusKind(status: number, { code, message, retryAfterMs }: FailureFacts): FailureKind {
  switch (status) {
    case 429:
      if (NO_CREDIT_CODES.includes(code) || NO_CREDIT.test(message)) return 'misconfigured'
      if (retryAfterMs === null && NO_QUOTA.test(message)) return 'misconfigured'
      return TOO_LARGE.test(message) ? 'too large' : 'overloaded'
    case 503:
    case NO_FLEX_CAPACITY:
    // Anthropic's status for an overload.
    case 529:
      return 'overloaded'
    case GENERATION_FAILED:
      return 'failing'
    case 500:
      return NOT_REACHED.test(message) ? 'broken' : 'failing'
    case 408:
    case 409:
    case 502:
    case 504:
    // Cloudflare's statuses if the server behind it fails, refuses connections or TLS, responds too late, or has no tunnel.
    case 520:
    case 521:
    case 522:
    case 523:
    case 524:
    case 525:
    case 526:
    case 530:
      return 'broken'
    default:
      return status >= 500 && status <= 599 ? 'failing' : 'final'
  }
}

/** Whether jobs wait for a target that is unavailable because of such failures. */
export function isWaitedFor(kind: FailureKind): kind is Trouble['kind'] {
  return kind !== 'too large' && kind !== 'final'
}

/** What a failed call or check shows about its target. */
export function troubleOf(error: UpstreamError): Trouble {
  const kind = failureKind(error)
  return { kind: isWaitedFor(kind) ? kind : 'failing', status: error.status, message: error.message }
}

const DNS = /^(?:ENOTFOUND|EAI_|ENODATA|ESERVFAIL|EREFUSED|ETIMEOUT|EBADNAME)/
/** OpenSSL's certificate error codes have no common prefix. */
const TLS =
  /^(?:ERR_TLS|ERR_SSL|EPROTO$|CERT_|CRL_|UNABLE_TO_|ERROR_IN_CERT|ERROR_IN_CRL|DEPTH_ZERO_SELF_SIGNED|SELF_SIGNED_CERT|HOSTNAME_MISMATCH|INVALID_(?:CA|PURPOSE)|PATH_LENGTH_EXCEEDED)/

/** Codes of connections that were never established: nothing was sent, so the request cannot be the cause. */
const NOT_CONNECTED: readonly string[] = [
  // No free port or file descriptor, or no permission, on this machine.
  'EACCES',
  'EADDRNOTAVAIL',
  'EMFILE',
  'ENFILE',
  'EPERM',
  'ECONNREFUSED',
  'EHOSTDOWN',
  'EHOSTUNREACH',
  'ENETDOWN',
  'ENETUNREACH',
  'ENOENT',
  'ETIMEDOUT',
  'UND_ERR_CONNECT_TIMEOUT',
]
/** @param code the error code of a socket, a resolver or OpenSSL */
export function connectionFault(code: string): ConnectionFault {
  if (DNS.test(code)) return 'dns'
  return TLS.test(code) ? 'tls' : 'connection'
}

/** Whether the connection was established before it failed, so that the request may have been received. */
export function isBroken(code: string): boolean {
  return connectionFault(code) === 'connection' && !NOT_CONNECTED.includes(code)
}
