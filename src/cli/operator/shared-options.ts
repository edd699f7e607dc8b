/** Options and help texts that several commands share. */
import { InvalidArgumentError, Option } from 'commander'
import { isMonth } from '../../job/month.ts'

/** How many rows one command lists at most. */
export const MAX_ROWS = 10_000

export interface DefaultOptions {
  readonly config?: string
  readonly json?: true
}

export function config(): Option {
  return new Option('--config <file>', 'configuration file (default: ./parley.config.json if it exists)')
}

export function examples(...lines: readonly string[]): string {
  const title = lines.length === 1 ? 'Example' : 'Examples'
  return `\n${title}:\n${lines.map((line) => `  ${line}`).join('\n')}`
}

export function monthOption(text: string): string {
  if (!isMonth(text)) throw new InvalidArgumentError('It must be a month in the form YYYY-MM.')
  return text
}

/** The keys by which `parley usage --by` can sum. */
export const USAGE_KEYS = ['month', 'account', 'model'] as const

/** Parses a list of keys separated by commas. Each is one of `USAGE_KEYS`, or `metadata.KEY`. */
export function usageKeysOption(text: string): string[] {
  return text.split(',').map((part) => {
    const key = part.trim()
    if (USAGE_KEYS.some((one) => one === key) || /^metadata\../.test(key)) return key
    throw new InvalidArgumentError(`Each key must be one of ${USAGE_KEYS.join(', ')}, or metadata.KEY.`)
  })
}

/** Returns a parser for a whole number in a range. */
export function numberFrom(least: number, most: number): (text: string) => number {
  return (text) => {
    const number = Number(text)
    if (!/^\d+$/.test(text) || number < least || number > most) {
      throw new InvalidArgumentError(`It must be a whole number from ${least} to ${most}.`)
    }
    return number
  }
}
