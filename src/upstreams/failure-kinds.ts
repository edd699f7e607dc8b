/**
 * Decides who is responsible for a failed call: the model server, for which jobs wait, or the job.
 *
 * | kind | what it is | whom it counts against |
 * |---|---|---|
 * | `unreachable` | no connection could be made: refused, DNS, TLS, no route, connect timeout | the server |
 * | `overloaded` | 429, 498, 503, 529 | the server |
 * | `broken` | a connection that was reset or closed, 408, 409, 502, 504, a proxy's 520 to 526 and 530, 500 of a gateway that reached nothing, and a blank 200 | the server; the job too, if others succeed in between |
 * | `misconfigured` | redirects, 401 to 405, 407, 410, 412, no quota left, and a 400 whose message means one of these | the operator; the job too, if others succeed in between |
 * | `failing` | 424, 500 and other 5xx, call timeouts, an empty answer | the job, unless the circuit breaker is open or other jobs fail too while none succeeds |
 * | `too large` | 429 because this request is too large | the job |
 * | `final` | anything else: another call would end in the same way | the job, at once |
 */
import type { ConnectionFault, FailureKind, Trouble, UpstreamError } from './model-server.ts'
import {
  CRASHED,
  LITELLM,
  NO_CREDIT,
  NO_CREDIT_CODES,
  NO_PROVIDER,
  NO_QUOTA,
  NOT_REACHED,
  OPERATORS_400,
  TOO_LARGE,
} from './vendor-errors.ts'

/** TGI, SageMaker and Bedrock respond with this status if the model fails during a call. */
export const GENERATION_FAILED = 424
/** Groq responds with this status if its service tier `flex` has no capacity. */
export const NO_FLEX_CAPACITY = 498
/**
 * Only the operator can fix the cause of these statuses: an address that redirects (for example to a login page); a wrong key,
 * payment, permission, path or model; a path that serves only pages (405); a proxy's password (407); a model that was retired
 * (410, NVIDIA); and an exhausted budget (412, Portkey and Fireworks).
 */
const OF_OPERATOR: readonly number[] = [301, 302, 303, 307, 308, 401, 402, 403, 404, 405, 407, 410, 412]
/** Google sends answers without choices or text occasionally, and a proper one to the next call. */
export const NO_CHOICES = 'The chat completion has no choices.'
export const NO_TEXT = 'The chat completion has no text content.'

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

/** Some gateways respond with 200 if the server behind them failed, and put its status into the code. */
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
    // Anthropic sends this status for an overload.
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
    // Cloudflare sends these statuses if the server behind it fails, refuses connections or TLS, responds too late, or has no
    // tunnel.
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

export function isWaitedFor(kind: FailureKind): kind is Trouble['kind'] {
  return kind !== 'too large' && kind !== 'final'
}

export function troubleOf(error: UpstreamError): Trouble {
  const kind = failureKind(error)
  return { kind: isWaitedFor(kind) ? kind : 'failing', status: error.status, message: error.message }
}

const DNS = /^(?:ENOTFOUND|EAI_|ENODATA|ESERVFAIL|EREFUSED|ETIMEOUT|EBADNAME)/
/** The codes of OpenSSL's certificate errors have no common prefix. */
const TLS =
  /^(?:ERR_TLS|ERR_SSL|EPROTO$|CERT_|CRL_|UNABLE_TO_|ERROR_IN_CERT|ERROR_IN_CRL|DEPTH_ZERO_SELF_SIGNED|SELF_SIGNED_CERT|HOSTNAME_MISMATCH|INVALID_(?:CA|PURPOSE)|PATH_LENGTH_EXCEEDED)/

/** With these codes the connection was never established. Nothing was sent, so the request cannot be the cause. */
const NOT_CONNECTED: readonly string[] = [
  // This machine has no free port or file descriptor, or no permission.
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

/**
 * Returns whether the connection may have been established before it failed. If so, the server may have received the request.
 */
export function isBroken(code: string): boolean {
  return connectionFault(code) === 'connection' && !NOT_CONNECTED.includes(code)
}
