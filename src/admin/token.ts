/**
 * The token for the admin API: PARLEY_ADMIN_TOKEN, or a token generated at the first start and stored in a file that only its
 * owner can read. With SQLite that file is next to the database file. With Postgres it is in the working directory, so set
 * the variable to give several nodes the same token.
 */
import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, resolve } from 'node:path'

/** The path with Postgres: next to the default SQLite database. */
const DEFAULT_PATH = './data/parley.admin-token'
const GENERATED = /^padm_[A-Za-z0-9_-]{43}$/
const GROUP_AND_OTHERS = 0o077

export interface AdminToken {
  /** Null if the admin API is disabled, because no token was given and none could be stored. */
  readonly token: string | null
  /** The file that stores the token; null if there is none. */
  readonly file: string | null
  /** A warning for the operator; null if there is none. */
  readonly note: string | null
}

/**
 * Reads the token, or generates it. Never throws: a server without its admin API is better than no server.
 * @param given PARLEY_ADMIN_TOKEN; null if it is not set
 * @param databaseFile the SQLite database file, which exists by now; null for Postgres
 */
export function adminToken(given: string | null, databaseFile: string | null): AdminToken {
  if (given !== null) return { token: given, file: null, note: null }
  const file = resolve(databaseFile === null ? DEFAULT_PATH : `${databaseFile}.admin-token`)
  try {
    if (!existsSync(file)) generate(file)
    return read(file)
  } catch (error) {
    const { message } = error as Error
    return disabled(
      `the admin API is disabled: the token file cannot be used (${message}); set PARLEY_ADMIN_TOKEN`,
    )
  }
}

function read(file: string): AdminToken {
  const token = readFileSync(file, 'utf8').trim()
  if (!GENERATED.test(token)) {
    return disabled(
      `the admin API is disabled: ${file} does not contain a token that Parley generated; remove the file and restart, or set PARLEY_ADMIN_TOKEN`,
    )
  }
  return { token, file, note: restrictAccess(file) }
}

/** Copying the folder, or a chmod, may have made the file readable by other users. */
function restrictAccess(file: string): string | null {
  if (process.platform === 'win32' || (statSync(file).mode & GROUP_AND_OTHERS) === 0) return null
  chmodSync(file, 0o600)
  return `other users could read the admin token in ${file}; its permissions are now 0600; to generate a new token, remove the file and restart`
}

/** Creates the file atomically, and never replaces one that another server created in the meantime. */
function generate(file: string): void {
  const folder = dirname(file)
  if (!existsSync(folder)) mkdirSync(folder, { mode: 0o700 })
  const draft = `${file}.${randomBytes(6).toString('hex')}`
  writeFileSync(draft, `padm_${randomBytes(32).toString('base64url')}\n`, { mode: 0o600, flag: 'wx' })
  try {
    linkSync(draft, file)
  } catch (error) {
    if ((error as { code?: string }).code !== 'EEXIST') throw error
  } finally {
    rmSync(draft)
  }
}

function disabled(note: string): AdminToken {
  return { token: null, file: null, note }
}
