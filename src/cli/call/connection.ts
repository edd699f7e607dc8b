/** Creates the client with which commands call a server, converts its errors to exit codes, and lets signals abort calls. */

import {
  AuthenticationError,
  ConfigurationError,
  ConnectionError,
  type Logger,
  Parley,
  ParleyError,
  PermissionError,
  RateLimitError,
  ServerError,
  ServiceUnavailableError,
  TimeoutError,
  UnexpectedResponseError,
} from '../../../client/src/index.ts'
import { parseExactly } from '../../json-text/read-json.ts'
import { VERSION } from '../../version.ts'
import { CommandError, printError } from '../input-output.ts'
import { EXIT, type ServerOptions } from '../options.ts'
import { onShutdownSignal } from '../shutdown-signals.ts'

/** `PARLEY_LOG` turns on the client's log. The log goes to standard error, because standard output is for answers. */
const LOGGER: Logger = { error: printError, warn: printError, info: printError, debug: printError }

export function apiKeyOf({ key }: ServerOptions): string {
  const apiKey = key ?? process.env.PARLEY_API_KEY
  if (apiKey) return apiKey
  throw new CommandError(
    'No API key is set. Set PARLEY_API_KEY, or pass --key. On the server, `parley keys create` creates a key.',
    EXIT.rejected,
  )
}

export function connect(options: ServerOptions): Parley {
  const { url } = options
  const apiKey = apiKeyOf(options)
  try {
    // `JSON.parse` would lose digits of large numbers in answers.
    return new Parley({
      baseUrl: serverUrl(url),
      apiKey,
      parseJson: parseExactly,
      headers: { 'user-agent': `parley/${VERSION}` },
      logger: LOGGER,
      logLevel: process.env.PARLEY_LOG ? undefined : 'off',
    })
  } catch (error) {
    throw clientError(error)
  }
}

export function serverUrl(given: string | undefined): string {
  return given ?? (process.env.PARLEY_URL || 'http://127.0.0.1:8080')
}

const REJECTED = [AuthenticationError, PermissionError]
const UNREACHABLE = [
  ConnectionError,
  TimeoutError,
  ServiceUnavailableError,
  ServerError,
  RateLimitError,
  UnexpectedResponseError,
]

/** Converts an error of the client to a `CommandError`. Returns any other error unchanged. */
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

/**
 * Runs `work` with a signal that SIGINT and SIGTERM abort. Throws errors of the client as `CommandError`.
 * @param interruptedMessage the message for the user after a signal
 */
export async function interruptible<T>(
  work: (signal: AbortSignal) => Promise<T>,
  interruptedMessage: () => string,
): Promise<T> {
  const controller = new AbortController()
  let code: number = EXIT.interrupted
  onShutdownSignal((reason) => {
    if (reason === 'SIGTERM' && !controller.signal.aborted) code = EXIT.terminated
    controller.abort()
  })
  try {
    return await work(controller.signal)
  } catch (error) {
    if (controller.signal.aborted) throw new CommandError(interruptedMessage(), code)
    throw clientError(error)
  }
}
