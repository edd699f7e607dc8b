/**
 * Bounds the bytes of callback bodies that a node has in memory: a thousand callbacks of megabytes may be due at the same
 * moment, and there are slots for hundreds.
 *
 * - Small bodies are always granted: the number of slots bounds them, and large ones never delay them.
 * - One account may hold half of the budget, so that its slow receivers leave the rest to others.
 * - A body larger than its share is granted when nothing else is held that counts against it.
 * - The body that has waited longest comes first, so that many smaller bodies cannot starve a larger one.
 */
import type { Clock } from '../clock.ts'
import { Counts } from '../sharing/counts.ts'

/** A body of at most this many bytes does not wait and does not count. */
export const SMALL_BODY_BYTES = 16 * 1024

export interface ByteBudgetOptions {
  readonly maxBytes: number
  /** How long a body may wait for its bytes. */
  readonly maxWaitMs: number
  readonly clock: Clock
}

/** Frees the bytes again; a second call does nothing. */
export type Free = () => void

const NOTHING_TO_FREE: Free = () => {}

interface Waiting {
  readonly account: string
  readonly bytes: number
  readonly end: (free: Free | null) => void
}

export class ByteBudget {
  readonly #options: ByteBudgetOptions
  /** In the order in which they began to wait. */
  readonly #waiting = new Set<Waiting>()
  /** Bytes by account. */
  readonly #held = new Counts<string>()
  #closed = false

  constructor(options: ByteBudgetOptions) {
    this.#options = options
  }

  /** Resolves when the bytes may be held. Null means that they may not: the wait was too long, or the budget was closed. */
  reserve(account: string, bytes: number): Promise<Free | null> | Free | null {
    if (this.#closed) return null
    if (bytes <= SMALL_BODY_BYTES) return NOTHING_TO_FREE
    const { promise, resolve } = Promise.withResolvers<Free | null>()
    const cancel = this.#options.clock.after(this.#options.maxWaitMs, () => {
      waiting.end(null)
      this.#grant()
    })
    const waiting: Waiting = {
      account,
      bytes,
      end: (free) => {
        cancel()
        this.#waiting.delete(waiting)
        resolve(free)
      },
    }
    this.#waiting.add(waiting)
    this.#grant()
    return promise
  }

  /** Grants nothing more, and rejects what waits. */
  close(): void {
    this.#closed = true
    for (const { end } of this.#waiting) end(null)
  }

  #grant(): void {
    const { maxBytes } = this.#options
    for (const { account, bytes, end } of this.#waiting) {
      const own = this.#held.of(account)
      if (own > 0 && own + bytes > maxBytes / 2) continue
      // Others do not overtake it: what is freed is kept for it until it fits.
      if (this.#held.total > 0 && this.#held.total + bytes > maxBytes) return
      this.#held.add(account, bytes)
      let isHeld = true
      end(() => {
        if (!isHeld) return
        isHeld = false
        this.#held.add(account, -bytes)
        this.#grant()
      })
    }
  }
}
