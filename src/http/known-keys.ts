/**
 * The hashes of all existing keys, as far as needed to tell that a key does not exist. They are read on first use, so a
 * server that never gets unknown keys never reads them.
 */
import type { Clock } from '../clock.ts'
import { singleFlight } from '../lookup-cache.ts'
import type { AccountStore } from '../store/account-store.ts'

/** Hashes per read. */
const PAGE = 10_000
/** A key created after the last read stays unknown for this long, or for this many times the duration of the read. */
const FRESH_MS = 2000
const PAUSE_FACTOR = 20
/** Bytes kept of each hash: among a million keys, a collision has a chance of one in a million, and costs only one lookup. */
const PREFIX_BYTES = 6
const PREFIX_DIGITS = (PREFIX_BYTES * 8) / 6

export class KnownKeys {
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
    this.#freshUntilMs = startedMs + Math.max(FRESH_MS, PAUSE_FACTOR * tookMs)
  }
}

function prefixOf(hash: string): number {
  return Buffer.from(hash.slice(0, PREFIX_DIGITS), 'base64url').readUIntBE(0, PREFIX_BYTES)
}
