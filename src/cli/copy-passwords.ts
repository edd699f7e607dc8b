/**
 * Reads the passwords of the databases of `parley copy` from a file or the environment, because other users of the machine can
 * see the arguments of commands.
 */
import { readFileSync } from 'node:fs'
import type { Environment } from '../config/settings.ts'
import { isPostgres } from '../store/open.ts'
import { CommandError } from './output.ts'

export const FROM_PASSWORD = 'PARLEY_FROM_PASSWORD'
export const TO_PASSWORD = 'PARLEY_TO_PASSWORD'

export interface PasswordSource {
  /** The option that names the database, for messages. */
  readonly option: '--from' | '--to'
  /** The environment variable that may contain the password. */
  readonly variable: string
  /** The file with the password. It takes precedence over the variable. */
  readonly file: string | undefined
}

/** Returns the URL with the password; unchanged if no password is given. */
export function withPassword(
  address: string,
  { option, variable, file }: PasswordSource,
  env: Environment,
): string {
  const password = file === undefined ? env[variable] : readPassword(`${option}-password-file`, file)
  if (password === undefined || password === '') return address
  if (!isPostgres(address)) {
    // The environment variable may be meant for another command, so it is ignored. A password file for SQLite is a mistake.
    if (file === undefined) return address
    throw new CommandError(`${option}-password-file: a SQLite file has no password. Leave the option out.`)
  }
  const url = new URL(address)
  if (url.password !== '' || url.searchParams.has('password')) {
    const from = file === undefined ? variable : `${option}-password-file`
    throw new CommandError(
      `${option}: both this URL and ${from} contain a password. Remove the one in the URL.`,
    )
  }
  url.password = encodeURIComponent(password)
  return url.href
}

function readPassword(option: string, file: string): string {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    throw new CommandError(`${option}: ${file} cannot be read: ${(error as Error).message}.`)
  }
  const [line = ''] = text.split(/\r?\n/, 1)
  if (line === '')
    throw new CommandError(`${option}: the first line of ${file} is empty; it must contain the password.`)
  return line
}
