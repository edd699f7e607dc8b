/**
 * Passwords of databases that commands name by address: from a file or the environment, because every user of a machine can
 * read the arguments of its commands.
 */
import { readFileSync } from 'node:fs'
import type { Environment } from '../config/settings.ts'
import { isPostgres } from '../store/open.ts'
import { CommandError } from './command-error.ts'

export const FROM_PASSWORD = 'PARLEY_FROM_PASSWORD'
export const TO_PASSWORD = 'PARLEY_TO_PASSWORD'

export interface PasswordSource {
  /** The option that names the database, for messages. */
  readonly option: '--from' | '--to'
  /** The environment variable that may hold the password. */
  readonly variable: string
  /** The file that holds it; it goes before the environment. */
  readonly file: string | undefined
}

/** The address with the password; unchanged where there is none. */
export function withPassword(
  address: string,
  { option, variable, file }: PasswordSource,
  env: Environment,
): string {
  const password = file === undefined ? env[variable] : readPassword(`${option}-password-file`, file)
  if (password === undefined || password === '') return address
  if (!isPostgres(address)) {
    // The variable may be set for another database.
    if (file === undefined) return address
    throw new CommandError(`${option}-password-file: a SQLite file has no password. Leave the option out.`)
  }
  const url = new URL(address)
  if (url.password !== '' || url.searchParams.has('password')) {
    const from = file === undefined ? variable : `${option}-password-file`
    throw new CommandError(`${option}: has a password, and so has ${from}. Remove the one in the address.`)
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
