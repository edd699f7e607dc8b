/**
 * From an API key to the account that calls, and its tier. A key is looked up every two seconds at most, so a revoked key
 * stops within that time on every node, and a busy key costs the database next to nothing. Keys that do not exist are limited by
 * the address that they come from.
 */
import { hashKey, isWellFormedKey } from '../accounts/key.ts'
import type { Clock } from '../clock.ts'
import type { Tier, Tiers } from '../job/tier.ts'
import { LookupCache } from '../lookup-cache.ts'
import { type Caps, capsOf } from '../queue/monthly-caps.ts'
import { type QuotaLimits, quotasOf } from '../queue/quotas.ts'
import type { AccountStore } from '../store/account-store.ts'
import { AddressLimit } from './address-limit.ts'
import { tooManyUnknownKeys } from './errors.ts'
import { KnownKeys } from './known-keys.ts'

const FRESH_MS = 2000
const MAX_KEYS = 20_000

export interface Caller {
  readonly account: string
  readonly keyId: string
  readonly tier: Tier
  /** A suspended account may create no jobs. It may still read. */
  readonly suspended: boolean
  /** Null where nothing is capped. */
  readonly caps: Caps | null
  /** Null where nothing is limited. */
  readonly quotas: QuotaLimits | null
}

export interface Authentication {
  /**
   * Gives the caller of a key; null for a key that is unknown, revoked or expired. Rejects with 429 for a key that does not
   * exist, from an address that has sent too many of them.
   */
  get(key: string, address: string): Caller | null | Promise<Caller | null>
}

export interface AuthenticationOptions {
  readonly store: Pick<AccountStore, 'findKey' | 'listKeyHashes'>
  readonly tiers: Tiers
  readonly clock: Clock
  /** Keys that an address may send in a minute and that the database does not have. */
  readonly maxUnknownKeys: number
  readonly onRejected: () => void
}

export function createAuthentication(options: AuthenticationOptions): Authentication {
  const { store, tiers, clock, maxUnknownKeys, onRejected } = options
  const unknownKeys = new AddressLimit(clock, maxUnknownKeys)
  const knownKeys = new KnownKeys(store, clock)

  async function findCaller(key: string): Promise<Caller | null> {
    const record = await store.findKey(hashKey(key))
    if (!record || record.revokedAtMs !== null) return null
    if (record.expiresAtMs !== null && record.expiresAtMs <= clock.nowMs()) return null
    const { account, id: keyId } = record
    const tier = tiers.of(record.tier)
    const suspended = record.suspendedAtMs !== null
    const caps = capsOf(account, tier, record.caps)
    return { account, keyId, tier, suspended, caps, quotas: quotasOf(account, tier, record.caps) }
  }

  const cache = new LookupCache({
    clock,
    freshMs: FRESH_MS,
    maxEntries: MAX_KEYS,
    // The database is not asked about a text that cannot be a key, and the text is not remembered.
    lookUp: (key) => (isWellFormedKey(key) ? findCaller(key) : null),
  })

  async function countUnknown(found: Promise<Caller | null>, address: string): Promise<Caller | null> {
    const caller = await found
    if (caller === null) unknownKeys.count(address)
    return caller
  }

  /** The database is asked only for a key that exists, so an address with many callers loses none because of one of them. */
  async function getFromLimited(key: string, waitMs: number): Promise<Caller | null> {
    if (!isWellFormedKey(key)) return null
    if (cache.peek(key) || (await knownKeys.has(hashKey(key)))) return cache.get(key)
    onRejected()
    throw tooManyUnknownKeys(maxUnknownKeys, Math.ceil(waitMs / 1000))
  }

  return {
    get: (key, address) => {
      const known = cache.fresh(key)
      if (known) return known
      const waitMs = unknownKeys.waitMs(address)
      if (waitMs > 0) return getFromLimited(key, waitMs)
      const found = cache.get(key)
      // A key that was looked up just now is not counted again.
      return found instanceof Promise ? countUnknown(found, address) : found
    },
  }
}
