/**
 * Counts the memory of HTTP requests against a share of the byte budget (uploads, requests or answers). An account that has
 * used up its part gets 503 at once. If other accounts use the rest, the request waits for up to ten seconds.
 */
import type { FastifyRequest } from 'fastify'
import type { Clock } from '../../clock.ts'
import { Stop } from '../../job/stop.ts'
import type { ByteDecision, ByteShare, ShareName } from '../../sharing/byte-budget.ts'
import type { HttpError } from '../errors.ts'
import '../request-context.ts'
import { memoryFull, overMemoryPart } from './unavailable.ts'

/** A request waits at most this long for memory. */
const MAX_WAIT_MS = 10_000

/** @param decision whether the account has used up its part, or all accounts together the whole share */
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

  /** Returns null once the bytes are counted, otherwise the error for the caller. Returns a promise only if it has to wait. */
  reserve(account: string, bytes: number): HttpError | null | Promise<HttpError | null> {
    const decision = this.share.tryReserve(account, bytes)
    if (decision === 'granted') return null
    return decision === 'full' ? this.#wait(account, bytes) : this.#rejected(account, decision)
  }

  /** Like `reserve`, but waits even if the account has used up its part, because the request is already being processed. */
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

/** Requests of operators and requests without a key share the empty name, which no account has. */
export function accountOf({ caller }: FastifyRequest): string {
  return caller?.account ?? ''
}
