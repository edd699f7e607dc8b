/** Reads the options of a command for developers, and prints them with `--help`. */
import { type ParseArgsConfig, parseArgs } from 'node:util'

type Option = NonNullable<ParseArgsConfig['options']>[string] & {
  readonly help: string
}

/** With `--help`, prints the purpose and the options, and exits. With a wrong option, prints the problem and exits. */
export function readOptions<const Options extends Readonly<Record<string, Option>>>(
  purpose: string,
  options: Options,
) {
  if (process.argv.includes('--help')) {
    process.stdout.write(helpOf(purpose, options))
    process.exit(0)
  }
  try {
    return parseArgs({ options }).values
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n`)
    process.exit(1)
  }
}

export function helpOf(purpose: string, options: Readonly<Record<string, Option>>): string {
  const rows = Object.entries(options).map(([name, { type, help, default: value }]) => {
    const given = type === 'string' ? `--${name} <value>` : `--${name}`
    const unlessGiven = typeof value === 'string' && value !== '' ? ` Default: ${value}.` : ''
    return [given, help + unlessGiven] as const
  })
  const width = Math.max(...rows.map(([given]) => given.length))
  const lines = rows.map(([given, help]) => `  ${given.padEnd(width)}  ${help}`)
  return [purpose, '', ...lines, ''].join('\n')
}
