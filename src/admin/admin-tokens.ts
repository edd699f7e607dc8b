/**
 * Admin tokens grant access to the admin API: the server's own token, and those that operators create. The latter are all read
 * at once and cached for two seconds, so a revoked token soon stops working. They are read again for an unknown token, unless
 * its address has sent too many wrong tokens.
 */
import { hash, randomBytes, timingSafeEqual } from 'node:crypto'
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
import type { Clock } from '../clock.ts'
import { LookupCache } from '../lookup-cache.ts'
import type { AdminTokenRecord, AdminTokenStore } from '../store/account-store.ts'
import { type Static, Type } from '../typed-schema.ts'
import { unixTime, unixTimeOrNull, wholeSeconds } from './fields.ts'

export interface AdminCaller {
  /** `name` is null for the server's own token, which several operators may share. */
  readonly name: string | null
  readonly readOnly: boolean
}

const OWN: AdminCaller = { name: null, readOnly: false }
const FRESH_MS = 2000
const SHAPE = /^padm_[A-Za-z0-9_-]{43}$/

export class AdminTokens {
  /** `timingSafeEqual` needs values of equal length, so this is a digest. It is null if the server has no token of its own. */
  readonly #own: Buffer | null
  readonly #clock: Clock
  readonly #store: Pick<AdminTokenStore, 'listAdminTokens'>
  readonly #known: LookupCache<ReadonlyMap<string, AdminTokenRecord>>

  constructor(own: string | null, store: Pick<AdminTokenStore, 'listAdminTokens'>, clock: Clock) {
    this.#own = own === null ? null : digestOf(own)
    this.#clock = clock
    this.#store = store
    this.#known = new LookupCache({
      clock,
      freshMs: FRESH_MS,
      maxEntries: 1,
      lookUp: () => this.#read(),
    })
  }

  /**
   * Returns null for a wrong token. Rejects with `StoreUnavailable` if the tokens of operators cannot be read.
   * @param mayRead whether to read them again for an unknown token, which may just have been created
   */
  async callerOf(given: string, mayRead: boolean): Promise<AdminCaller | null> {
    if (this.#own && timingSafeEqual(digestOf(given), this.#own)) return OWN
    return SHAPE.test(given) ? this.#holderOf(hashAdminToken(given), mayRead) : null
  }

  async #holderOf(hashed: string, mayRead: boolean): Promise<AdminCaller | null> {
    const known = (await this.#known.get('all')).get(hashed)
    const token = known ?? (mayRead ? (await this.#read()).get(hashed) : undefined)
    if (token === undefined || token.revokedAtMs !== null) return null
    const { name, readOnly, expiresAtMs } = token
    return expiresAtMs !== null && expiresAtMs <= this.#clock.nowMs() ? null : { name, readOnly }
  }

  async #read(): Promise<ReadonlyMap<string, AdminTokenRecord>> {
    return new Map((await this.#store.listAdminTokens()).map((token) => [token.hash, token]))
  }
}

export function makeAdminToken(): string {
  return `padm_${randomBytes(32).toString('base64url')}`
}

/** A fast hash without a salt is safe, because the token is long and random. */
export function hashAdminToken(token: string): string {
  return hash('sha256', token, 'base64url')
}

function digestOf(token: string): Buffer {
  return hash('sha256', token, 'buffer')
}

const shownToken = {
  id: Type.String(),
  name: Type.String({ description: 'The operator or program that uses the token; the audit log shows it.' }),
  read_only: Type.Boolean({
    description: 'Whether the token allows only reading, without contents of jobs, secrets and keys.',
  }),
  expires_at: unixTimeOrNull('When it expires'),
}

export const tokenList = Type.Object({
  tokens: Type.Array(
    Type.Object({
      ...shownToken,
      created_at: unixTime('When it was created'),
      revoked_at: unixTimeOrNull('When it was revoked'),
    }),
  ),
})
type ListedToken = Static<typeof tokenList>['tokens'][number]

export const newToken = Type.Object({
  ...shownToken,
  token: Type.String({ description: 'The token. It cannot be shown again.' }),
})

export function tokenView(record: AdminTokenRecord): ListedToken {
  const { id, name, readOnly, createdAtMs, expiresAtMs, revokedAtMs } = record
  return {
    id,
    name,
    read_only: readOnly,
    created_at: Math.floor(createdAtMs / 1000),
    expires_at: wholeSeconds(expiresAtMs),
    revoked_at: wholeSeconds(revokedAtMs),
  }
}

/** With Postgres, the file has the path that it has with the default SQLite database. */
const DEFAULT_PATH = './data/parley.admin-token'
const GROUP_AND_OTHERS = 0o077

/*
 * Without PARLEY_ADMIN_TOKEN, the first start generates the server's own token. Its file, which only the owner can read, is
 * next to the SQLite file or, with Postgres, in the working directory. Nodes that should share a token need the variable.
 */

interface AdminToken {
  /** `token` is null if no token was given and none could be stored. Only the tokens of operators are then accepted. */
  readonly token: string | null
  /** `file` is null if no file contains the token. */
  readonly file: string | null
  /** The server logs this warning for the operator. */
  readonly note: string | null
}

/**
 * Never throws, because a server can run without its own token.
 * @param given PARLEY_ADMIN_TOKEN; null if it is not set
 * @param databaseFile the SQLite file, which must exist; null for Postgres
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
  if (!SHAPE.test(token)) {
    return disabled(
      `the admin API is disabled: ${file} does not contain a token that Parley generated; remove the file and restart, or set PARLEY_ADMIN_TOKEN`,
    )
  }
  return { token, file, note: restrictAccess(file) }
}

/** Removes the access of other users, which a copied folder or a chmod may have granted. Returns a warning if it did. */
function restrictAccess(file: string): string | null {
  if (process.platform === 'win32' || (statSync(file).mode & GROUP_AND_OTHERS) === 0) return null
  chmodSync(file, 0o600)
  return `other users could read the admin token in ${file}; its permissions are now 0600; to generate a new token, remove the file and restart`
}

/** Creates the file atomically. If another server creates the file at the same time, that file stays. */
function generate(file: string): void {
  const folder = dirname(file)
  if (!existsSync(folder)) mkdirSync(folder, { mode: 0o700 })
  const draft = `${file}.${randomBytes(6).toString('hex')}`
  writeFileSync(draft, `${makeAdminToken()}\n`, { mode: 0o600, flag: 'wx' })
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
