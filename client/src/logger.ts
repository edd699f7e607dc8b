/** Logs responses, retries, and outages during waits. */
import { fromEnvironment } from './environment.ts'
import { ConfigurationError } from './errors.ts'

/** Accepts a logger such as `console`, pino or winston. The fields repeat the information in the message. */
export interface Logger {
  error(message: string, fields?: object): void
  warn(message: string, fields?: object): void
  info(message: string, fields?: object): void
  debug(message: string, fields?: object): void
}

export const LOG_LEVELS = ['off', 'error', 'warn', 'info', 'debug'] as const

/**
 * `warn` logs that a server does not respond during a wait. `info` also logs retries, and `debug` also logs each response. Keys
 * and contents are never logged.
 */
export type LogLevel = (typeof LOG_LEVELS)[number]

const nothing = () => {}
const SILENT: Logger = { error: nothing, warn: nothing, info: nothing, debug: nothing }

/**
 * Returns a logger that logs only from this level on. Without a level, the environment variable `PARLEY_LOG` decides. Without
 * that, a given logger gets `info`, and nothing is logged without a logger.
 */
export function leveledLogger(given: Logger | undefined, level: LogLevel | undefined): Logger {
  const fromVariable = level ?? fromEnvironment('PARLEY_LOG')
  const wanted = LOG_LEVELS.find((name) => name === (fromVariable ?? (given ? 'info' : 'off')))
  if (wanted === undefined) {
    const where = level === undefined ? 'PARLEY_LOG' : 'logLevel'
    throw new ConfigurationError(`${where} must be one of ${LOG_LEVELS.join(', ')}`)
  }
  const most = LOG_LEVELS.indexOf(wanted)
  const logger: Logger = given ?? console
  const at = (name: Exclude<LogLevel, 'off'>) =>
    LOG_LEVELS.indexOf(name) <= most
      ? (message: string, fields?: object) => logger[name](`parley: ${message}`, fields)
      : nothing
  if (most === 0) return SILENT
  return { error: at('error'), warn: at('warn'), info: at('info'), debug: at('debug') }
}
