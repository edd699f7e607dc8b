/**
 * Who calls: from the `x-api-key` header to an account and its tier. Keys are looked up once every two seconds at most,
 * so a revoked key stops within that time on every node, and a busy key costs the database next to nothing.
 */
import { hashKey, isWellFormedKey } from '../accounts/key.ts'
import type { Clock } from '../clock.ts'
import type { Tier, Tiers } from '../job/tier.ts'
import { type Caps, capsOf } from '../queue/monthly-caps.ts'
import type { AccountStore, KeyRecord } from '../store/account-store.ts'

const FRESH_MS = 2000
/** Keys remembered; beyond that all are forgotten and looked up anew. */
const REMEMBERED = 20_000

export interface Caller {
  readonly account: string
  readonly keyId: string
  readonly tier: Tier
  /** Whether the account may create no jobs. It may still read. */
  readonly suspended: boolean
  /** Null where nothing is capped. */
  readonly caps: Caps | null
}

interface Known {
  readonly caller: Caller | null
  readonly untilMs: number
}

export class Authentication {
  readonly #store: Pick<AccountStore, 'findKey'>
  readonly #tiers: Tiers
  readonly #clock: Clock
  readonly #known = new Map<string, Known>()
  readonly #looking = new Map<string, Promise<Caller | null>>()

  constructor(store: Pick<AccountStore, 'findKey'>, tiers: Tiers, clock: Clock) {
    this.#store = store
    this.#tiers = tiers
    this.#clock = clock
  }

  /** The caller with this key, or null; at once where the key was looked up lately. */
  identify(key: unknown): Caller | null | Promise<Caller | null> {
    if (typeof key !== 'string') return null
    const known = this.#known.get(key)
    if (known && known.untilMs > this.#clock.steadyMs()) return known.caller
    // What is known was well-formed, and need not be checked again with each request.
    if (!isWellFormedKey(key)) return null
    const looking = this.#looking.get(key) ?? this.#lookUp(key)
    this.#looking.set(key, looking)
    return looking
  }

  async #lookUp(key: string): Promise<Caller | null> {
    // The age counts from before the look-up: a key revoked while it is under way must not stay longer.
    const untilMs = this.#clock.steadyMs() + FRESH_MS
    try {
      const caller = this.#callerOf(await this.#store.findKey(hashKey(key)))
      if (this.#known.size >= REMEMBERED) this.#known.clear()
      this.#known.set(key, { caller, untilMs })
      return caller
    } finally {
      this.#looking.delete(key)
    }
  }

  #callerOf(record: KeyRecord | null): Caller | null {
    if (!record || record.revokedAtMs !== null) return null
    if (record.expiresAtMs !== null && record.expiresAtMs <= this.#clock.nowMs()) return null
    const { account, id: keyId } = record
    const tier = this.#tiers.of(record.tier)
    const suspended = record.suspendedAtMs !== null
    return { account, keyId, tier, suspended, caps: capsOf(account, tier, record.caps) }
  }
}
