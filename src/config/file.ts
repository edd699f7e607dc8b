/**
 * Reads the configuration file, for commands that need only the database. It is separate from load.ts, because loading the
 * table of all settings takes longer than the rest of such a command.
 */
import { existsSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { isObject, type JsonObject } from '../json-object.ts'
import { DEFAULT_DATABASE, databaseProblems } from './allowed-values.ts'
import { environmentNameProblems, withSecretFiles } from './environment.ts'
import type { Environment } from './settings.ts'

/** The message has one line for each problem that the operator must fix. */
export class ConfigurationError extends Error {
  override readonly name = 'ConfigurationError'
  constructor(problems: readonly string[]) {
    super(problems.join('\n'))
  }
}

const DEFAULT_FILE = 'parley.config.json'
/** Some editors on Windows begin a file with a byte order mark. */
const BYTE_ORDER_MARK = /^\ufeff/

/** Returns the database URL, even if other settings are invalid. */
export function loadDatabaseUrl(env: Environment, file?: string): string {
  const { given } = readConfiguration(env, file)
  const names = environmentNameProblems(env, given)
  const { DATABASE_URL } = withSecretFiles(env, names, ['DATABASE_URL'])
  const url = DATABASE_URL || given.database || DEFAULT_DATABASE
  const problems = typeof url === 'string' ? databaseProblems(url) : ['database: must be a string']
  if (names.length + problems.length > 0) throw new ConfigurationError([...names, ...problems])
  return String(url)
}

export interface GivenConfiguration {
  /** This is null if there is no configuration file. */
  readonly path: string | null
  readonly given: JsonObject
}

/** @throws ConfigurationError if the file cannot be read, is not a JSON object, or has a name twice in one object */
export function readConfiguration(env: Environment, option: string | undefined): GivenConfiguration {
  const named = option ?? env.PARLEY_CONFIG
  if (named && !existsSync(named)) {
    throw new ConfigurationError([`${named}: the configuration file does not exist`])
  }
  const found = named || (existsSync(DEFAULT_FILE) ? DEFAULT_FILE : null)
  if (found === null) return { path: null, given: {} }
  const path = resolve(found)
  let text: string
  let given: unknown
  try {
    text = readFileSync(path, 'utf8').replace(BYTE_ORDER_MARK, '')
    given = JSON.parse(text)
  } catch (error) {
    throw new ConfigurationError([`${path}: ${(error as Error).message}`])
  }
  if (!isObject(given)) throw new ConfigurationError([`${path}: must contain a JSON object`])
  const problems: string[] = []
  placesIn(text, (name, line) => {
    problems.push(`${name}: is given twice, but only the last one would be used (${path}:${line})`)
  })
  if (problems.length > 0) throw new ConfigurationError(problems)
  return { path, given }
}

interface Place {
  readonly line: number
  readonly inner: Map<string, Place>
}

const TOKEN = /"(?:[^"\\]|\\.)*"|\n|[{}[\],]|[^\s{}[\],:"]+/g

/** Returns a function that finds the line of a setting, or of the nearest setting around it, by its path. */
export function settingLines(file: string): (path: string) => number | null {
  const root = placesIn(readFileSync(file, 'utf8'))
  return (path) => {
    let place = root
    let rest = path
    for (;;) {
      // A name may contain dots, so the longest matching name is used.
      const fitting = [...place.inner.keys()].filter((name) => `${rest}.`.startsWith(`${name}.`))
      const name = fitting.sort((a, b) => b.length - a.length)[0]
      const inner = name === undefined ? undefined : place.inner.get(name)
      if (name === undefined || inner === undefined) return place === root ? null : place.line
      place = inner
      rest = rest.slice(name.length + 1)
    }
  }
}

/** `text` must be valid JSON. `onTwice` gets each repeated name of an object, and its line. */
function placesIn(text: string, onTwice?: (name: string, line: number) => void): Place {
  let line = 1
  const tokens = [...text.matchAll(TOKEN)].flatMap(([token]) => {
    if (token !== '\n') return [{ token, line }]
    line += 1
    return []
  })
  let at = 0
  const read = (startLine: number): Place => {
    const inner = new Map<string, Place>()
    const opening = tokens[at++]?.token
    if (opening !== '{' && opening !== '[') return { line: startLine, inner }
    for (let index = 0; at < tokens.length && !/^[}\]]$/.test(tokens[at]?.token ?? ''); index++) {
      const { token, line: keyLine } = tokens[at] ?? { token: '""', line: startLine }
      if (opening === '{') at++
      const name = opening === '{' ? String(JSON.parse(token)) : String(index)
      if (inner.has(name)) onTwice?.(name, keyLine)
      inner.set(name, read(keyLine))
      if (tokens[at]?.token === ',') at++
    }
    at++
    return { line: startLine, inner }
  }
  return read(1)
}
