/**
 * Who may use the admin API: callers with the server's own token, and with tokens that operators created. Those are read from the
 * database together, every two seconds at most, so that a revoked one soon stops working and guesses cost few queries.
 */
import { hash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Clock } from '../clock.ts'
import { LookupCache } from '../lookup-cache.ts'
import type { AdminTokenRecord, AdminTokenStore } from '../store/admin-token-store.ts'

export interface AdminCaller {
  /** Of the token; null for the server's own, which operators may share. */
  readonly name: string | null
  readonly readOnly: boolean
}

const OWN: AdminCaller = { name: null, readOnly: false }
const FRESH_MS = 2000
const SHAPE = /^padm_[A-Za-z0-9_-]{43}$/

export class AdminTokens {
  /** Its digest, so that tokens of every length compare in the same time; null if the server has none. */
  readonly #own: Buffer | null
  readonly #clock: Clock
  readonly #store: Pick<AdminTokenStore, 'listAdminTokens'>
  /** All of them, by hash. */
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
   * Null for a wrong token. Rejects with `StoreUnavailable` if it is not the server's own and the others cannot be read.
   * @param mayRead whether an unknown one may be looked up at once, because it may have just been created
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

/** For the database. The token is random and long, so a plain fast hash keeps it secret. */
export function hashAdminToken(token: string): string {
  return hash('sha256', token, 'base64url')
}

function digestOf(token: string): Buffer {
  return hash('sha256', token, 'buffer')
}
