/**
 * The configuration file, for commands that only need the database. Separate from load.ts, because loading the library that
 * checks all settings takes longer than the rest of such a command.
 */
import { existsSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { DEFAULT_DATABASE, databaseProblems } from './database-url.ts'
import { isObject, type JsonObject } from './json-object.ts'
import type { Environment } from './settings.ts'

/** The problems that the operator must fix, one sentence per line. */
export class ConfigurationError extends Error {
  override readonly name = 'ConfigurationError'
  constructor(problems: readonly string[]) {
    super(problems.join('\n'))
  }
}

const DEFAULT_FILE = 'parley.config.json'

/** Reads only the database setting, for commands that do not need any other setting to be valid. */
export function loadDatabaseUrl(env: Environment, file?: string): string {
  const path = configFile(env, file)
  const given = path === null ? {} : readFile(path)
  const url = env.DATABASE_URL || given.database || DEFAULT_DATABASE
  const problems = typeof url === 'string' ? databaseProblems(url) : ['database: must be a string']
  if (problems.length > 0) throw new ConfigurationError(problems)
  return String(url)
}

/** The path of the configuration file, if there is one. */
export function configFile(env: Environment, option: string | undefined): string | null {
  const named = option ?? env.PARLEY_CONFIG
  if (named) {
    if (!existsSync(named)) throw new ConfigurationError([`${named}: the configuration file does not exist`])
    return resolve(named)
  }
  return existsSync(DEFAULT_FILE) ? resolve(DEFAULT_FILE) : null
}

/** @throws ConfigurationError if it cannot be read, or is not a JSON object */
export function readFile(path: string): JsonObject {
  let value: unknown
  try {
    value = JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    throw new ConfigurationError([`${path}: ${(error as Error).message}`])
  }
  if (!isObject(value)) throw new ConfigurationError([`${path}: must contain a JSON object`])
  return value
}
