/** Defines the options, exit codes and help texts that several commands share. */
import { type Command, InvalidArgumentError, Option } from 'commander'
import { isMonth } from '../job/month.ts'

export const MAX_ROWS = 10_000

export interface DefaultOptions {
  readonly config?: string
  readonly json?: true
}

export function config(): Option {
  return new Option('--config <file>', 'configuration file (default: ./parley.config.json if it exists)')
}

/** Returns the arguments of commander's `addHelpText`. */
export function examples(...lines: readonly string[]): ['after', string] {
  const title = lines.length === 1 ? 'Example' : 'Examples'
  return ['after', `\n${title}:\n${lines.map((line) => `  ${line}`).join('\n')}`]
}

export function monthOption(text: string): string {
  if (!isMonth(text)) throw new InvalidArgumentError('It must be a month in the form YYYY-MM.')
  return text
}

export const USAGE_KEYS = ['month', 'account', 'model'] as const

/** Each key is one of `USAGE_KEYS`, or `metadata.KEY`. */
export function usageKeysOption(text: string): string[] {
  return text.split(',').map((part) => {
    const key = part.trim()
    if (USAGE_KEYS.some((one) => one === key) || /^metadata\../.test(key)) return key
    throw new InvalidArgumentError(`Each key must be one of ${USAGE_KEYS.join(', ')}, or metadata.KEY.`)
  })
}

export function numberFrom(least: number, most: number): (text: string) => number {
  return (text) => {
    const number = Number(text)
    if (!/^\d+$/.test(text) || number < least || number > most) {
      throw new InvalidArgumentError(`It must be a whole number from ${least} to ${most}.`)
    }
    return number
  }
}

/** The formats in which `parley batch` writes results. */
export const RESULT_FORMATS = ['parley', 'openai'] as const
export type ResultFormat = (typeof RESULT_FORMATS)[number]

/** Scripts rely on these codes, so they must not change. */
export const EXIT = {
  completed: 0,
  /** Usage errors get this code, and so do all errors without their own. */
  other: 1,
  /** The job failed, or at least one job of a batch did. */
  failed: 2,
  /** There is no API key, the server rejected it, or its tier does not allow the request. */
  rejected: 3,
  /** The server is unreachable or unavailable, or the response is not from a Parley server. */
  unreachable: 4,
  open: 5,
  interrupted: 130,
  terminated: 143,
} as const

export const EXIT_CODES_HELP = `
Exit codes: 0 completed, 1 usage and other errors, 2 the job failed, 3 the key or its tier does not allow the request,
4 the server cannot be reached or is unavailable, 5 the job has not finished yet, 130 interrupted (143 by SIGTERM).`

export interface ServerOptions {
  readonly url?: string
  readonly key?: string
}

export function addServerOptions(command: Command): Command {
  return command
    .option('--url <url>', 'the URL of the server (default: PARLEY_URL, or http://127.0.0.1:8080)')
    .option(
      '--key <key>',
      'the API key (default: PARLEY_API_KEY, which other users cannot see, unlike an option)',
    )
}
