/**
 * Finds the account and tier of a request's API key. The result is cached for two seconds. So a revoked key stops working
 * within two seconds on every node, and frequent requests with the same key rarely query the database. Addresses that send many
 * unknown keys are limited.
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
/** The cache holds the callers of at most this many keys. */
const MAX_KEYS = 20_000

export interface Caller extends JobOwner {
  readonly keyId: string
  /** Where the events of the account are sent; null if it has no webhook. */
  readonly webhookUrl: string | null
}

export interface Authentication {
  /**
   * Returns the caller to whom the request's key belongs, or what is wrong with the key. Rejects with 429 for an unknown key if
   * its address has sent too many unknown keys.
   */
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
  /** How many unknown keys an address may send per minute. */
  readonly maxUnknownKeys: number
  readonly onRejected: () => void
  /** Called if the write that records when keys were used fails. No request waits for this write. */
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
    // A text that is not in the format of keys is neither looked up nor cached.
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

  /**
   * Looks a key up only if it exists. A caller who tries random keys thus costs no query, and does not lock out others at the
   * same address.
   */
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
      // Only a lookup in the database counts: a cached unknown key was counted when it was looked up.
      return found instanceof Promise ? countUnknown(found, network) : found
    },
  }
}

function bearerOf(authorization: string | undefined): string | undefined {
  return /^bearer +(\S+) *$/i.exec(authorization ?? '')?.[1]
}

const HOUR_MS = 3_600_000

/**
 * Records the hour in which each key was last used: at most one write per key and hour. One write covers all keys that were
 * used during the previous write.
 */
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
      // The use is not lost: the next request with the key records it.
      onError(error)
    } finally {
      this.#isWriting = false
    }
  }
}

/** How many hashes one query reads. */
const PAGE = 10_000
/**
 * After each read of all hashes, no other read follows for this long, or for this many times the duration of the read,
 * whichever is longer. Until then, a newly created key is unknown here.
 */
const HASHES_FRESH_MS = 2000
const PAUSE_FACTOR = 20
/**
 * How many bytes of each hash are kept in memory. Among a million keys, an unknown key collides with a probability of one in
 * 281 million; a collision costs only one lookup.
 */
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

  /** Whether a key with this hash may exist, including revoked and expired keys. Rejects with `StoreUnavailable`. */
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
