/** From an answer that is no success to the error that stands for it. */
import {
  AuthenticationError,
  type ErrorFields,
  InvalidRequestError,
  NotFoundError,
  type ParleyError,
  PermissionError,
  RateLimitError,
  ServerError,
  ServiceUnavailableError,
  TimeoutError,
  UnexpectedResponseError,
} from './errors.ts'

type ErrorClass = new (message: string, fields: ErrorFields) => ParleyError

const BY_STATUS: Readonly<Record<number, ErrorClass>> = {
  400: InvalidRequestError,
  401: AuthenticationError,
  403: PermissionError,
  404: NotFoundError,
  408: TimeoutError,
  413: InvalidRequestError,
  415: InvalidRequestError,
  429: RateLimitError,
  503: ServiceUnavailableError,
}

/** Of a page that some proxy answers with, so much is quoted. */
const EXCERPT = 200

/**
 * @param body the answer, parsed; undefined where it is not JSON
 * @param text the answer as it came
 */
export function refusalOf(status: number, body: unknown, text: string, fields: ErrorFields): ParleyError {
  const Class = BY_STATUS[status] ?? (status >= 500 ? ServerError : UnexpectedResponseError)
  const refused = body as { readonly message?: unknown; readonly details?: unknown } | null | undefined
  if (typeof refused?.message !== 'string') {
    return new Class(`the server answered ${status}, without a message of Parley's: ${excerpt(text)}`, fields)
  }
  if (typeof refused.details !== 'string') return new Class(refused.message, fields)
  return new Class(`${refused.message} ${refused.details}`, { ...fields, details: refused.details })
}

export function excerpt(text: string): string {
  return text.length > EXCERPT ? `${text.slice(0, EXCERPT)}…` : text
}
