/**
 * A share of the byte budget for requests: new work of an account that exceeds its part gets 503; other work waits for a
 * moment.
 */
import type { FastifyRequest } from 'fastify'
import type { Clock } from '../../clock.ts'
import { Stop } from '../../job/stop.ts'
import type { ByteDecision, ByteShare, ShareName } from '../../sharing/byte-budget.ts'
import type { HttpError } from '../errors.ts'
import '../request-context.ts'
import { memoryFull, overMemoryPart } from './unavailable.ts'

/** A request waits at most this long for bytes that other accounts use. */
const MAX_WAIT_MS = 10_000

/** `decision` is the reason: the account exceeded its part, or other accounts used all memory for too long. */
export type OnMemoryRejected = (share: ShareName, decision: ByteDecision, account: string) => void

export interface MemoryShareOptions {
  readonly name: ShareName
  readonly share: ByteShare
  readonly clock: Clock
  readonly onRejected: OnMemoryRejected
}

export class MemoryShare {
  readonly share: ByteShare
  readonly #options: MemoryShareOptions

  constructor(options: MemoryShareOptions) {
    this.share = options.share
    this.#options = options
  }

  /**
   * Counts the bytes for the account. Returns null once they are counted, otherwise the error for the caller. Returns a
   * promise only if it has to wait.
   */
  reserve(account: string, bytes: number): HttpError | null | Promise<HttpError | null> {
    const decision = this.share.tryReserve(account, bytes)
    if (decision === 'granted') return null
    return decision === 'full' ? this.#wait(account, bytes) : this.#rejected(account, decision)
  }

  /** Like `reserve`, but for work in progress, which also waits while its account exceeds its part. */
  reserveOrWait(account: string, bytes: number): HttpError | null | Promise<HttpError | null> {
    return this.share.tryReserve(account, bytes) === 'granted' ? null : this.#wait(account, bytes)
  }

  #rejected(account: string, decision: ByteDecision): HttpError {
    const { name, onRejected } = this.#options
    onRejected(name, decision, account)
    return decision === 'over part' ? overMemoryPart(name) : memoryFull(name)
  }

  async #wait(account: string, bytes: number): Promise<HttpError | null> {
    const stop = new Stop()
    const cancel = this.#options.clock.after(MAX_WAIT_MS, () => stop.now('timeout'))
    const isReserved = await this.share.reserve(account, bytes, stop)
    cancel()
    return isReserved ? null : this.#rejected(account, this.share.decide(account, bytes))
  }
}

/** Requests of operators, and requests that need no key, share one account, whose name cannot exist. */
export function accountOf({ caller }: FastifyRequest): string {
  return caller?.account ?? ''
}
