/**
 * Caches lookups, such as those of API keys, for a limited time and with a limited number of keys. Each key has at most one
 * lookup at a time.
 */
import type { Clock } from './clock.ts'

export interface LookupCacheOptions<Value> {
  readonly clock: Pick<Clock, 'steadyMs'>
  /** The time counts from the start of a lookup, so that changes during the lookup are noticed in time. */
  readonly freshMs: number
  /** At this number of entries, the oldest entry makes room for a new one. */
  readonly maxEntries: number
  /** A value that is returned without a promise is not cached, because it was cheap to get. */
  readonly lookUp: (key: string) => Promise<Value> | Value
}

interface Entry<Value> {
  readonly value: Value
  readonly freshUntilMs: number
}

export class LookupCache<Value> {
  readonly #options: LookupCacheOptions<Value>
  readonly #entries = new Map<string, Entry<Value>>()
  readonly #inProgress = new Map<string, Promise<Value>>()

  constructor(options: LookupCacheOptions<Value>) {
    this.#options = options
  }

  /** Returns a fresh value without a promise. Rejects if the lookup rejects. Rejections are not cached. */
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

  fresh(key: string): Value | undefined {
    const entry = this.#entries.get(key)
    return entry && entry.freshUntilMs > this.#options.clock.steadyMs() ? entry.value : undefined
  }

  /** The value may be outdated. */
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

/** The returned function starts `lookUp`. Calls during a lookup share its result. */
export function singleFlight<Value>(lookUp: () => Promise<Value>): () => Promise<Value> {
  let inProgress: Promise<Value> | null = null
  return () => {
    inProgress ??= lookUp().finally(() => {
      inProgress = null
    })
    return inProgress
  }
}
