/** Creates the client that the commands use to call a server. */
import { type Logger, Parley } from '../../../client/src/index.ts'
import { parseExactly } from '../../json-text/read-json.ts'
import { VERSION } from '../../version.ts'
import { CommandError } from '../command-error.ts'
import { printError } from '../output.ts'
import { clientError } from './client-errors.ts'
import { EXIT } from './exit-code.ts'
import type { ServerOptions } from './server-options.ts'

/** `PARLEY_LOG` makes the client's log visible; standard output is for answers. */
const LOGGER: Logger = { error: printError, warn: printError, info: printError, debug: printError }

export function connect({ url, key }: ServerOptions): Parley {
  const apiKey = key ?? process.env.PARLEY_API_KEY
  if (!apiKey) {
    throw new CommandError(
      'No API key is set. Set PARLEY_API_KEY, or pass --key. On the server, `parley keys create` creates a key.',
      EXIT.rejected,
    )
  }
  try {
    // Answers are printed with every digit of the numbers that the model wrote.
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
