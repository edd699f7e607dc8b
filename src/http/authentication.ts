/**
 * Finds the account and tier of a request's API key. Results are cached for two seconds, so a revoked key works that long at
 * most, and frequent requests rarely query the database. Addresses that send many unknown keys are limited.
 */
import type { FastifyRequest } from 'fastify'
import { hashKey, isWellFormedKey } from '../accounts/key.ts'
import type { Clock } from '../clock.ts'
import type { Tiers } from '../job/tier.ts'
import { LookupCache, singleFlight } from '../lookup-cache.ts'
import { capsOf } from '../queue/job-and-token-caps.ts'
import type { JobOwner } from '../queue/job-creator.ts'
import { quotasOf } from '../queue/quotas.ts'
import { MinuteCounter } from '../sharing/minute-counter.ts'
import type { AccountStore, KeyRecord } from '../store/account-store.ts'
import { type KeyProblem, tooManyUnknownKeys } from './errors.ts'
import { addressOf, MAX_NETWORKS, networkOf } from './network-of.ts'

const FRESH_MS = 2000
const MAX_KEYS = 20_000

export interface Caller extends JobOwner {
  readonly keyId: string
  /** Parley sends the account's events to this URL, which is null without a webhook. */
  readonly webhookUrl: string | null
}

export interface Authentication {
  /** Returns what is wrong with a key that has no caller. Rejects with 429 if the address has sent too many unknown keys. */
  callerOf(
    request: Pick<FastifyRequest, 'headers' | 'ip'> & Partial<Pick<FastifyRequest, 'route'>>,
  ): Caller | KeyProblem | Promise<Caller | KeyProblem>
}

export function isCaller(found: Caller | KeyProblem): found is Caller {
  return typeof found !== 'string'
}

export interface AuthenticationOptions {
  readonly store: Pick<AccountStore, 'findKey' | 'listKeyHashes' | 'noteKeyUses'>
  readonly tiers: Tiers
  readonly clock: Clock
  /** The limit applies to each address. */
  readonly maxUnknownKeys: number
  readonly onRejected: () => void
  /** Reports that the last use of keys could not be stored. No request waits for that write. */
  readonly onError: (error: unknown) => void
}

export function createAuthentication(options: AuthenticationOptions): Authentication {
  const { store, tiers, clock, maxUnknownKeys, onRejected } = options
  const unknownKeys = new MinuteCounter(clock, MAX_NETWORKS)
  const knownKeys = new KnownKeys(store, clock)
  const uses = new KeyUses(options)

  async function findCaller(key: string): Promise<Caller | KeyProblem> {
    const record = await store.findKey(hashKey(key))
    if (!record) return 'unknown'
    if (record.revokedAtMs !== null) return 'revoked'
    if (record.expiresAtMs !== null && record.expiresAtMs <= clock.nowMs()) return 'expired'
    const { account, id: keyId, webhookUrl } = record
    uses.note(record)
    const tier = tiers.of(record.tier)
    const suspended = record.suspendedAtMs !== null
    const caps = capsOf(account, tier, record.caps)
    const quotas = quotasOf(account, tier, record.caps)
    return { account, keyId, tier, suspended, webhookUrl, caps, quotas }
  }

  const cache = new LookupCache({
    clock,
    freshMs: FRESH_MS,
    maxEntries: MAX_KEYS,
    // A text without the format of keys is neither looked up nor cached.
    lookUp: (key) => (isWellFormedKey(key) ? findCaller(key) : 'unknown'),
  })

  async function countUnknown(
    found: Promise<Caller | KeyProblem>,
    network: string,
  ): Promise<Caller | KeyProblem> {
    const caller = await found
    if (!isCaller(caller)) unknownKeys.add(network)
    return caller
  }

  /** Looks up a key only if `KnownKeys` has it. So random keys cost few queries, and do not lock out callers at the address. */
  async function getFromLimited(key: string, waitMs: number): Promise<Caller | KeyProblem> {
    if (!isWellFormedKey(key)) return 'unknown'
    const before = cache.peek(key)
    if ((before !== undefined && isCaller(before)) || (await knownKeys.has(hashKey(key))))
      return cache.get(key)
    onRejected()
    throw tooManyUnknownKeys(maxUnknownKeys, Math.ceil(waitMs / 1000))
  }

  return {
    callerOf: (request) => {
      const key = request.route?.config.bearer
        ? bearerOf(request.headers.authorization)
        : request.headers['x-api-key']
      if (typeof key !== 'string' || key === '') return 'missing'
      const known = cache.fresh(key)
      if (typeof known === 'object') return known
      const network = networkOf(addressOf(request))
      const waitMs = unknownKeys.waitMs(network, maxUnknownKeys)
      if (waitMs > 0) return getFromLimited(key, waitMs)
      const found = cache.get(key)
      // A cached unknown key was already counted when it was looked up.
      return found instanceof Promise ? countUnknown(found, network) : found
    },
  }
}

function bearerOf(authorization: string | undefined): string | undefined {
  return /^bearer +(\S+) *$/i.exec(authorization ?? '')?.[1]
}

const HOUR_MS = 3_600_000

/** Records the hour in which each key was last used. A use is not written if the record of the key already has this hour. */
class KeyUses {
  readonly #options: Pick<AuthenticationOptions, 'store' | 'clock' | 'onError'>
  readonly #used = new Set<string>()
  #isWriting = false

  constructor(options: Pick<AuthenticationOptions, 'store' | 'clock' | 'onError'>) {
    this.#options = options
  }

  note({ id, usedAtMs }: KeyRecord): void {
    if (usedAtMs !== null && usedAtMs >= this.#hourMs()) return
    this.#used.add(id)
    if (!this.#isWriting) void this.#write()
  }

  #hourMs(): number {
    return Math.floor(this.#options.clock.nowMs() / HOUR_MS) * HOUR_MS
  }

  async #write(): Promise<void> {
    const { store, onError } = this.#options
    this.#isWriting = true
    try {
      while (this.#used.size > 0) {
        const keyIds = [...this.#used]
        this.#used.clear()
        await store.noteKeyUses(keyIds, this.#hourMs())
      }
    } catch (error) {
      // The next request with the key records its use.
      onError(error)
    } finally {
      this.#isWriting = false
    }
  }
}

const PAGE = 10_000
/**
 * All hashes are read again after this time or PAUSE_FACTOR times the reading time, whichever is longer. Until then, a new key
 * is unknown here.
 */
const HASHES_FRESH_MS = 2000
const PAUSE_FACTOR = 20
/** Only a prefix of each hash is kept. With a million keys, one of 281 million unknown keys has a known prefix. */
const PREFIX_BYTES = 6
const PREFIX_DIGITS = (PREFIX_BYTES * 8) / 6

class KnownKeys {
  readonly #store: Pick<AccountStore, 'listKeyHashes'>
  readonly #clock: Pick<Clock, 'steadyMs'>
  readonly #read = singleFlight(() => this.#readAll())
  #prefixes: ReadonlySet<number> = new Set()
  #freshUntilMs = Number.NEGATIVE_INFINITY

  constructor(store: Pick<AccountStore, 'listKeyHashes'>, clock: Pick<Clock, 'steadyMs'>) {
    this.#store = store
    this.#clock = clock
  }

  /**
   * Returns true for existing keys, even revoked and expired ones. A new key may be missing until all hashes are read again.
   * Rejects with `StoreUnavailable`.
   */
  async has(hash: string): Promise<boolean> {
    const prefix = prefixOf(hash)
    if (this.#prefixes.has(prefix)) return true
    if (this.#clock.steadyMs() < this.#freshUntilMs) return false
    await this.#read()
    return this.#prefixes.has(prefix)
  }

  async #readAll(): Promise<void> {
    const startedMs = this.#clock.steadyMs()
    const prefixes = new Set<number>()
    for (let after = ''; ; ) {
      const hashes = await this.#store.listKeyHashes(after, PAGE)
      for (const hash of hashes) prefixes.add(prefixOf(hash))
      after = hashes.at(-1) ?? ''
      if (hashes.length < PAGE) break
    }
    this.#prefixes = prefixes
    const tookMs = this.#clock.steadyMs() - startedMs
    this.#freshUntilMs = startedMs + Math.max(HASHES_FRESH_MS, PAUSE_FACTOR * tookMs)
  }
}

function prefixOf(hash: string): number {
  return Buffer.from(hash.slice(0, PREFIX_DIGITS), 'base64url').readUIntBE(0, PREFIX_BYTES)
}
