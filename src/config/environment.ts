/**
 * Reads secrets from the files that environment variables name, and reports misspelled variables, which would silently have no
 * effect. Also suggests the name that an unknown setting probably meant.
 */
import { readFileSync } from 'node:fs'
import { isObject, type JsonObject } from '../json-object.ts'
import type { Environment } from './settings.ts'

const IN_FILES = ['DATABASE_URL', 'OPENAI_API_KEY', 'PARLEY_ADMIN_TOKEN'] as const
type SecretName = (typeof IN_FILES)[number]

/**
 * Returns the environment with the values from the files. An empty variable counts as not set.
 * @param problems gets a sentence for each value that cannot be read
 */
export function withSecretFiles(
  env: Environment,
  problems: string[],
  names: readonly SecretName[] = IN_FILES,
): Environment {
  const inFiles = names.filter((name) => env[`${name}_FILE`])
  const found = inFiles.flatMap((name) => {
    const value = secretIn(name, env[`${name}_FILE`] ?? '', env, problems)
    return value === null ? [] : [[name, value]]
  })
  return found.length === 0 ? env : { ...env, ...Object.fromEntries(found) }
}

function secretIn(name: SecretName, path: string, env: Environment, problems: string[]): string | null {
  const variable = `${name}_FILE`
  if (env[name]) {
    problems.push(`${variable}: ${name} is set, too; unset one of the two`)
    return null
  }
  try {
    const value = readFileSync(path, 'utf8').replace(/[\r\n]+$/, '')
    if (value !== '') return value
    problems.push(`${variable}: the file ${path} is empty`)
  } catch (error) {
    problems.push(`${variable}: the file ${path} cannot be read (${(error as NodeJS.ErrnoException).code})`)
  }
  return null
}

/** The server, the commands and the examples read these variables. */
const READ_BY_PARLEY: readonly string[] = [
  ...IN_FILES.map((name) => `${name}_FILE`),
  ...['PARLEY_CONFIG', 'PARLEY_ADMIN_TOKEN', 'PARLEY_SIMULATOR', 'PARLEY_OPERATOR'],
  ...['PARLEY_URL', 'PARLEY_API_KEY', 'PARLEY_LOG', 'PARLEY_CALLBACK_SECRET', 'PARLEY_CALLBACK_URL'],
  ...['PARLEY_FROM_PASSWORD', 'PARLEY_TO_PASSWORD'],
  ...['OPENAI_API_KEY', 'OPENAI_BASE_URL', 'OPENAI_MODEL', 'OPENAI_MAX_CONCURRENCY'],
]

/** OpenAI's clients read these variables, so they are not misspelled. */
const READ_BY_OPENAI_CLIENTS: readonly string[] = [
  ...['OPENAI_ADMIN_KEY', 'OPENAI_API_BASE', 'OPENAI_API_HOST', 'OPENAI_API_KEY_PATH', 'OPENAI_API_TYPE'],
  ...['OPENAI_API_VERSION', 'OPENAI_ENDPOINT', 'OPENAI_LOG', 'OPENAI_MODEL_NAME', 'OPENAI_ORGANIZATION'],
  ...['OPENAI_ORG_ID', 'OPENAI_PROJECT', 'OPENAI_PROJECT_ID', 'OPENAI_PROXY', 'OPENAI_WEBHOOK_SECRET'],
]

/** Kubernetes and Docker add these variables for a service whose name starts with `parley` or `openai`. */
const ADDED_FOR_SERVICES =
  /^(PARLEY|OPENAI)_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$/

const PREFIX = /^(?:PARLEY|OPENAI)_/
/** A name with at most this many characters after the prefix resembles too many others, so only one letter may differ. */
const SHORT = 3

/**
 * Returns one sentence for each misspelled variable. An empty variable counts as not set.
 * @param given the configuration file, which may name further variables
 */
export function environmentNameProblems(env: Environment, given: JsonObject): string[] {
  const used = new Set([...READ_BY_PARLEY, ...READ_BY_OPENAI_CLIENTS, ...namedIn(given)])
  return Object.keys(env).flatMap((name) => {
    if (!PREFIX.test(name) || used.has(name) || ADDED_FOR_SERVICES.test(name)) return []
    const known = READ_BY_PARLEY.filter((one) => one.match(PREFIX)?.[0] === name.match(PREFIX)?.[0])
    const nearest = nearestName(name, known, 2)
    if (nearest === null || !isNear(name, nearest) || !env[name]) return []
    return [`${name}: unknown environment variable; did you mean ${nearest}? Rename it, or unset it`]
  })
}

function isNear(name: string, nearest: string): boolean {
  const isShort = nearest.replace(PREFIX, '').length <= SHORT
  return !isShort || nearestName(name, [nearest], 1) !== null
}

/** Returns the variables that the file names in `api_key_env` and in `{ "env": … }`. */
function namedIn(value: unknown): string[] {
  if (!isObject(value)) return Array.isArray(value) ? value.flatMap(namedIn) : []
  return Object.entries(value).flatMap(([key, inner]) =>
    typeof inner === 'string' && (key === 'api_key_env' || key === 'env') ? [inner] : namedIn(inner),
  )
}

/** An edit adds, removes or replaces one letter, or swaps two neighbors. */
function nearestName(name: string, known: Iterable<string>, mostEdits: number): string | null {
  let nearest: string | null = null
  let fewest = mostEdits + 1
  for (const candidate of known) {
    if (Math.abs(candidate.length - name.length) >= fewest) continue
    const edits = editsBetween(name.toLowerCase(), candidate.toLowerCase())
    if (edits < fewest) {
      nearest = candidate
      fewest = edits
    }
  }
  return nearest
}

/** Returns a suggestion to append to a message; an empty text if more than a third of the letters differ. */
export function didYouMean(name: string, known: Iterable<string>): string {
  const nearest = nearestName(name, known, Math.max(1, Math.floor(name.length / 3)))
  return nearest === null ? '' : `; did you mean ${nearest}?`
}

/** Returns the Damerau–Levenshtein distance. No letter is changed twice. */
function editsBetween(a: string, b: string): number {
  let beforeLast: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let row = 1; row <= a.length; row++) {
    const current = [row]
    for (let column = 1; column <= b.length; column++) {
      const replaced = (last[column - 1] ?? 0) + (a[row - 1] === b[column - 1] ? 0 : 1)
      let edits = Math.min(replaced, (last[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1)
      if (row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]) {
        edits = Math.min(edits, (beforeLast[column - 2] ?? 0) + 1)
      }
      current.push(edits)
    }
    beforeLast = last
    last = current
  }
  return last[b.length] ?? 0
}
