/**
 * Decides who is responsible for a failed call: the model server, which jobs wait for, or the job. Pure.
 *
 * | kind | what it is | whom it counts against |
 * |---|---|---|
 * | `unreachable` | no connection could be made: refused, DNS, TLS, no route, connect timeout | the server |
 * | `overloaded` | 429, 498, 503, 529 | the server |
 * | `broken` | a connection that was reset or closed, 408, 409, 502, 504, a proxy's 520 to 526 and 530, 500 of a gateway that reached nothing, and a blank 200 | the server; the job too, where others succeed in between |
 * | `misconfigured` | redirects, 401 to 405, 400 about the key, the money or the model, no quota left | the operator; the job too, where others succeed in between |
 * | `failing` | 424, 500 and other 5xx, call timeouts | the job, unless the circuit breaker is open or other jobs fail too while none succeeds |
 * | `too large` | 429 because this request is too large | the job |
 * | `final` | anything else: another call would end in the same way | the job, at once |
 */
import type { ConnectionFault, FailureKind, Trouble, UpstreamError } from './model-server.ts'

/** The status of TGI, SageMaker and Bedrock if the model fails during a call, for example because it runs out of memory. */
export const GENERATION_FAILED = 424
/** Groq's status if the tier `flex` has no capacity. */
export const NO_FLEX_CAPACITY = 498
/**
 * Statuses that the operator must fix: key, payment, permission, path or model. Redirects, which calls do not follow, come from a
 * proxy that wants another address, or a login.
 */
const OF_OPERATOR: readonly number[] = [301, 302, 307, 308, 401, 402, 403, 404, 405]
/**
 * What some servers say in a 400 about the key (Google, xAI), the money (Anthropic, LiteLLM, Alibaba) or the model's name
 * (LiteLLM, OpenRouter). Only the beginning counts, because the rest may quote the conversation.
 */
const ABOUT_OPERATOR =
  /^(?:api key (?:not valid|not found|expired)|incorrect api key provided|your credit balance is too low|you have reached your specified api usage limits|budget has been exceeded|access denied, please make sure your account is in good standing|.{0,40}invalid model name passed in model=|\S+ is not a valid model id)/i
/** OpenAI responds with 429 and this code when the account has no credit left. */
const NO_CREDIT = /\binsufficient_quota\b/i
/** OpenAI's message for that. Google uses the same words for each of its rates, but adds when to try again. */
const NO_QUOTA = /exceeded your current quota/i
/** OpenAI's message for a request that exceeds a limit even without other requests, so that waiting does not help. */
const TOO_LARGE = /\brequest too large\b|\btoo large for\b|\breduce (?:the length|your prompt|the size)\b/i

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
  if (status !== null && OF_OPERATOR.includes(status)) return 'misconfigured'
  if (status === 400 && ABOUT_OPERATOR.test(error.message)) return 'misconfigured'
  if (!error.retryable) return 'final'
  if (error.timedOut) return 'failing'
  if (status === null) return connectionKind(error)
  return status >= 300 ? statusKind(status, error) : 'broken'
}

/** Gateways report a failure of the server behind them in a 200; its code is the actual status. */
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
      if (code === 'insufficient_quota' || NO_CREDIT.test(message)) return 'misconfigured'
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
