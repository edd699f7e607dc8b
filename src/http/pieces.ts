/**
 * Streams a text or a buffer in small pieces. A response sent in one piece is copied as a whole into the buffers of its
 * connection, so that a client that reads slowly looks like one that does not read.
 */
import { Readable } from 'node:stream'

/** In UTF-16 units or bytes. */
const PIECE = 65_536

export class Pieces extends Readable {
  readonly #whole: string | Buffer
  readonly #onClosed: (() => void) | null
  #at = 0

  /** @param onClosed called once, when everything was passed on or the stream was destroyed */
  constructor(whole: string | Buffer, onClosed: (() => void) | null = null) {
    super({ highWaterMark: PIECE })
    this.#whole = whole
    this.#onClosed = onClosed
  }

  override _read(): void {
    if (this.#at >= this.#whole.length) {
      this.push(null)
      return
    }
    const whole = this.#whole
    let end = Math.min(this.#at + PIECE, whole.length)
    if (typeof whole === 'string') {
      // A surrogate pair must not be split.
      if (isHighSurrogate(whole.charCodeAt(end - 1)) && isLowSurrogate(whole.charCodeAt(end))) end += 1
      this.push(Buffer.from(whole.slice(this.#at, end)))
    } else {
      this.push(whole.subarray(this.#at, end))
    }
    this.#at = end
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.#onClosed?.()
    callback(error)
  }
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit < 0xdc00
}

function isLowSurrogate(unit: number): boolean {
  return unit >= 0xdc00 && unit < 0xe000
}
