/** What an error of the client is called in a command: a few words, and the exit code. */
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

const REFUSED = [AuthenticationError, PermissionError]
const UNREACHABLE = [
  ConnectionError,
  TimeoutError,
  ServiceUnavailableError,
  ServerError,
  RateLimitError,
  UnexpectedResponseError,
]

/** Told to people in a few words; what the client did not throw is a bug and stays what it is. */
export function clientError(error: unknown): unknown {
  if (!(error instanceof ParleyError)) return error
  if (error instanceof ConfigurationError) {
    const message = error.message.replace(/^baseUrl/, '--url (or PARLEY_URL)')
    return new CommandError(sentence(message), EXIT.other)
  }
  const code = REFUSED.some((kind) => error instanceof kind)
    ? EXIT.refused
    : UNREACHABLE.some((kind) => error instanceof kind)
      ? EXIT.unreachable
      : EXIT.other
  const request = error.requestId === undefined ? '' : ` (request ${error.requestId})`
  return new CommandError(`${sentence(error.message)}${request}`, code)
}

function sentence(text: string): string {
  const begun = text.charAt(0).toUpperCase() + text.slice(1)
  return /[.!?…]$/.test(begun) ? begun : `${begun}.`
}
