/**
 * From an API key to the account that calls, and its tier. A key is looked up every two seconds at most, so a revoked key
 * stops within that time on every node, and a busy key costs the database next to nothing.
 */
import { hashKey, isWellFormedKey } from '../accounts/key.ts'
import type { Clock } from '../clock.ts'
import type { Tier, Tiers } from '../job/tier.ts'
import { LookupCache } from '../lookup-cache.ts'
import { type Caps, capsOf } from '../queue/monthly-caps.ts'
import { type QuotaLimits, quotasOf } from '../queue/quotas.ts'
import type { AccountStore } from '../store/account-store.ts'

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

/** Gives the caller of a key; null for a key that is unknown, revoked or expired. */
export type Authentication = Pick<LookupCache<Caller | null>, 'get'>

export function createAuthentication(
  store: Pick<AccountStore, 'findKey'>,
  tiers: Tiers,
  clock: Clock,
): Authentication {
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

  return new LookupCache({
    clock,
    freshMs: FRESH_MS,
    maxEntries: MAX_KEYS,
    // The database is not asked about a text that cannot be a key, and the text is not remembered.
    lookUp: (key) => (isWellFormedKey(key) ? findCaller(key) : null),
  })
}
