/**
 * Admin tokens: who may use the admin API, and how tokens are shown. Callers have the server's own token, or one that operators
 * created. The latter are read together, every two seconds at most, so that a revoked one soon stops working and guesses cost
 * few queries.
 */
import { hash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Clock } from '../clock.ts'
import { LookupCache } from '../lookup-cache.ts'
import type { AdminTokenRecord, AdminTokenStore } from '../store/account-store.ts'
import { type Static, Type } from '../typed-schema.ts'
import { unixTime, unixTimeOrNull, wholeSeconds } from './fields.ts'

export interface AdminCaller {
  /** The token's name; null for the server's own token, which operators may share. */
  readonly name: string | null
  readonly readOnly: boolean
}

const OWN: AdminCaller = { name: null, readOnly: false }
const FRESH_MS = 2000
const SHAPE = /^padm_[A-Za-z0-9_-]{43}$/

export class AdminTokens {
  /**
   * The digest of the server's own token; null if it has none. Digests have the same length, so every comparison takes the same
   * time.
   */
  readonly #own: Buffer | null
  readonly #clock: Clock
  readonly #store: Pick<AdminTokenStore, 'listAdminTokens'>
  /** All tokens that operators created, by hash. */
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
   * Returns null for a wrong token. Rejects with `StoreUnavailable` if it is not the server's own and the others cannot be read.
   * @param mayRead whether to look up an unknown token at once, because it may have just been created
   */
  callerOf(given: string, mayRead: boolean): AdminCaller | null | Promise<AdminCaller | null> {
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

/** The hash that the database stores. The token is random and long, so a plain fast hash keeps it secret. */
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

/** Schemas of the admin tokens that operators create, for the admin API, the dashboard and commands. */
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
