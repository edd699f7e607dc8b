/** Reads the body of a request into one buffer, however many pieces it arrives in. */
import type { IncomingMessage } from 'node:http'
import { invalid, notJson, tooLarge } from './errors.ts'

/** What a body of unknown length may have before `grow` is asked. */
export const FIRST_BYTES = 8192

export interface BodyRules {
  /** As the client announced it; null if it did not. */
  readonly length: number | null
  readonly limit: number
  /** Asked once whether a body of unknown length may grow to the limit; resolves with the error if it may not. */
  readonly grow: () => Promise<Error | null>
}

export type OnBody = (error: Error | null, body?: Buffer) => void

/** Calls `done` once. */
export function readBody(raw: IncomingMessage, rules: BodyRules, done: OnBody): void {
  const { length, limit } = rules
  if (length !== null && length > limit) done(tooLarge(limit))
  // The client hung up while the request waited, and nothing more is emitted.
  else if (raw.destroyed) done(notJson('The body did not arrive in full.'))
  else new BodyReader(raw, rules, done).start()
}

class BodyReader {
  readonly #raw: IncomingMessage
  readonly #rules: BodyRules
  readonly #done: OnBody
  #buffer: Buffer
  #received = 0
  #hasEnded = false

  constructor(raw: IncomingMessage, rules: BodyRules, done: OnBody) {
    this.#raw = raw
    this.#rules = rules
    this.#done = done
    this.#buffer = Buffer.allocUnsafe(rules.length ?? Math.min(FIRST_BYTES, rules.limit))
  }

  start(): void {
    this.#raw.on('data', this.#onData).on('end', this.#onEnd).on('error', this.#end)
  }

  readonly #onData = (piece: Buffer): void => {
    const { length, limit } = this.#rules
    const received = this.#received + piece.length
    if (received > (length ?? limit)) this.#end(tooLarge(limit))
    else if (received > this.#buffer.length) void this.#grow(piece)
    else this.#add(piece)
  }

  /** Copies it, so that a body in many small pieces takes no more memory than one in a few large ones. */
  #add(piece: Buffer): void {
    piece.copy(this.#buffer, this.#received)
    this.#received += piece.length
  }

  async #grow(piece: Buffer): Promise<void> {
    this.#raw.pause()
    const error = await this.#rules.grow()
    if (error) {
      this.#end(error)
      return
    }
    // The pages that the body does not reach are never in memory.
    const larger = Buffer.allocUnsafe(this.#rules.limit)
    this.#buffer.copy(larger, 0, 0, this.#received)
    this.#buffer = larger
    this.#add(piece)
    this.#raw.resume()
  }

  readonly #onEnd = (): void => {
    const { length } = this.#rules
    const isWhole = length === null || this.#received === length
    this.#end(isWhole ? null : invalid('Content-Length: does not match the body'))
  }

  readonly #end = (error: Error | null): void => {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#raw.off('data', this.#onData).off('end', this.#onEnd).off('error', this.#end)
    if (error) this.#done(error)
    else this.#done(null, this.#buffer.subarray(0, this.#received))
  }
}
