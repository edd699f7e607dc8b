/** Converts errors of the client library to messages and exit codes of a command. */
import {
  AuthenticationError,
  ConfigurationError,
  ConnectionError,
  ParleyError,
  PermissionError,
  RateLimitError,
  ServerError,
  ServiceUnavailableError,
  TimeoutError,
  UnexpectedResponseError,
} from '../../../client/src/index.ts'
import { CommandError } from '../command-error.ts'
import { EXIT } from './exit-code.ts'

const REJECTED = [AuthenticationError, PermissionError]
const UNREACHABLE = [
  ConnectionError,
  TimeoutError,
  ServiceUnavailableError,
  ServerError,
  RateLimitError,
  UnexpectedResponseError,
]

/** Returns a `CommandError` for errors of the client. Any other error is a bug and is returned unchanged. */
export function clientError(error: unknown): unknown {
  if (!(error instanceof ParleyError)) return error
  if (error instanceof ConfigurationError) {
    const message = error.message.replace(/^baseUrl/, '--url (or PARLEY_URL)')
    return new CommandError(sentence(message), EXIT.other)
  }
  const code = REJECTED.some((kind) => error instanceof kind)
    ? EXIT.rejected
    : UNREACHABLE.some((kind) => error instanceof kind)
      ? EXIT.unreachable
      : EXIT.other
  const request = error.requestId === undefined ? '' : ` (request ${error.requestId})`
  return new CommandError(`${sentence(error.message)}${request}`, code)
}

function sentence(text: string): string {
  const capitalized = text.charAt(0).toUpperCase() + text.slice(1)
  return /[.!?…]$/.test(capitalized) ? capitalized : `${capitalized}.`
}
