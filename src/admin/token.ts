/**
 * The token that opens the admin API: PARLEY_ADMIN_TOKEN, or one made at the first start and kept in a file that only its
 * owner can read. A SQLite database has it beside its file. A Postgres has no such place, so each working directory
 * keeps its own: nodes that are to share one are given the variable.
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

/** Of the default database file, which a Postgres does without. */
const DEFAULT_PLACE = './data/parley.admin-token'
const MADE = /^padm_[A-Za-z0-9_-]{43}$/
const OTHERS = 0o077

export interface AdminToken {
  /** Null where the admin API is closed: none was given, and none could be kept. */
  readonly token: string | null
  /** Where it is kept; null unless it is. */
  readonly file: string | null
  /** What the operator should know; null where all is well. */
  readonly note: string | null
}

/**
 * Reads the token, or makes it. Never throws: a server without its admin API is better than none.
 * @param given PARLEY_ADMIN_TOKEN; null where it is not set
 * @param databaseFile of a SQLite database, which is there by now; null for a Postgres
 */
export function adminToken(given: string | null, databaseFile: string | null): AdminToken {
  if (given !== null) return { token: given, file: null, note: null }
  const file = resolve(databaseFile === null ? DEFAULT_PLACE : `${databaseFile}.admin-token`)
  try {
    if (!existsSync(file)) make(file)
    return read(file)
  } catch (error) {
    const { message } = error as Error
    return closed(`the admin API is closed: no token can be kept (${message}); set PARLEY_ADMIN_TOKEN`)
  }
}

function read(file: string): AdminToken {
  const token = readFileSync(file, 'utf8').trim()
  if (!MADE.test(token)) {
    return closed(
      `the admin API is closed: ${file} holds no token that Parley made; remove it and start again, or set PARLEY_ADMIN_TOKEN`,
    )
  }
  return { token, file, note: tightened(file) }
}

/** A copy of a folder, or a careless chmod, may have opened it to others. */
function tightened(file: string): string | null {
  if (process.platform === 'win32' || (statSync(file).mode & OTHERS) === 0) return null
  chmodSync(file, 0o600)
  return `the admin token in ${file} could be read by others and is now closed to them; remove it and start again for a new one`
}

/** Whole or not at all, and never over one that another server has just made. */
function make(file: string): void {
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

function closed(note: string): AdminToken {
  return { token: null, file: null, note }
}
