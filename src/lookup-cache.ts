/** Caches lookups for a limited time and a limited number of keys, with one lookup at a time per key. */
import type { Clock } from './clock.ts'

export interface LookupCacheOptions<Value> {
  readonly clock: Pick<Clock, 'steadyMs'>
  /** Counts from the start of the lookup, so that changes made during the lookup are seen in time. */
  readonly freshMs: number
  /** With more entries, the oldest is dropped. */
  readonly maxEntries: number
  /** A value that is returned without a promise was cheap to get, so it is not cached. */
  readonly lookUp: (key: string) => Promise<Value> | Value
}

interface Entry<Value> {
  readonly value: Value
  readonly freshUntilMs: number
}

export class LookupCache<Value> {
  readonly #options: LookupCacheOptions<Value>
  /** The oldest entry comes first. */
  readonly #entries = new Map<string, Entry<Value>>()
  readonly #inProgress = new Map<string, Promise<Value>>()

  constructor(options: LookupCacheOptions<Value>) {
    this.#options = options
  }

  /** Returns the value itself if it is fresh. Rejects if the lookup does; a rejection is not cached. */
  get(key: string): Value | Promise<Value> {
    const { clock, lookUp } = this.#options
    const entry = this.#entries.get(key)
    const nowMs = clock.steadyMs()
    if (entry && entry.freshUntilMs > nowMs) return entry.value
    const inProgress = this.#inProgress.get(key)
    if (inProgress !== undefined) return inProgress
    const found = lookUp(key)
    return found instanceof Promise ? this.#remember(key, found, nowMs + this.#options.freshMs) : found
  }

  /** The result of the last lookup, if it is fresh. */
  fresh(key: string): Value | undefined {
    const entry = this.#entries.get(key)
    return entry && entry.freshUntilMs > this.#options.clock.steadyMs() ? entry.value : undefined
  }

  /** The result of the last lookup, fresh or not. */
  peek(key: string): Value | undefined {
    return this.#entries.get(key)?.value
  }

  #remember(key: string, found: Promise<Value>, freshUntilMs: number): Promise<Value> {
    const remembered = found
      .then((value) => {
        this.#entries.delete(key)
        if (this.#entries.size >= this.#options.maxEntries) this.#dropOldest()
        this.#entries.set(key, { value, freshUntilMs })
        return value
      })
      .finally(() => this.#inProgress.delete(key))
    this.#inProgress.set(key, remembered)
    return remembered
  }

  #dropOldest(): void {
    for (const oldest of this.#entries.keys()) {
      this.#entries.delete(oldest)
      return
    }
  }
}

/** Joins calls made while one is in progress: they share its result, and the next call looks up again. */
export function singleFlight<Value>(lookUp: () => Promise<Value>): () => Promise<Value> {
  let inProgress: Promise<Value> | null = null
  return () => {
    inProgress ??= lookUp().finally(() => {
      inProgress = null
    })
    return inProgress
  }
}
