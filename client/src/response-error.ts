/** Converts an error response to the error that the client throws. */
import {
  AuthenticationError,
  ConflictError,
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
  409: ConflictError,
  413: InvalidRequestError,
  415: InvalidRequestError,
  429: RateLimitError,
  503: ServiceUnavailableError,
}

/**
 * With these statuses, a response without `success: false` is not from Parley: other servers use these statuses for paths that
 * they do not know.
 */
const WITHOUT_ROUTE: ReadonlySet<number> = new Set([400, 404, 405])

/** An unexpected response may be long, such as a proxy's error page, so the error message contains only its beginning. */
const MAX_EXCERPT_LENGTH = 200

/**
 * @param body the parsed body; undefined if it is not JSON
 * @param text the body as it was received
 */
export function errorOf(status: number, body: unknown, text: string, fields: ErrorFields): ParleyError {
  const error = body as
    | { readonly success?: unknown; readonly message?: unknown; readonly details?: unknown }
    | null
    | undefined
  if (WITHOUT_ROUTE.has(status) && error?.success !== false) {
    const message = `the server responded with HTTP ${status} and is not a Parley server: ${excerpt(text)}`
    return new UnexpectedResponseError(message, fields)
  }
  const Class = BY_STATUS[status] ?? (status >= 500 ? ServerError : UnexpectedResponseError)
  if (typeof error?.message !== 'string') {
    return new Class(
      `the server responded with HTTP ${status} and without a message from Parley: ${excerpt(text)}`,
      fields,
    )
  }
  if (typeof error.details !== 'string') return new Class(error.message, fields)
  return new Class(`${error.message} ${error.details}`, { ...fields, details: error.details })
}

export function excerpt(text: string): string {
  if (text === '') return '(empty)'
  return text.length > MAX_EXCERPT_LENGTH ? `${text.slice(0, MAX_EXCERPT_LENGTH)}…` : text
}
