/**
 * Collects a response body that arrives in several pieces, and limits the memory of large bodies. Nearly every answer arrives
 * in one piece, for which `Call` needs no `ResponseBody`.
 */
import { isMarkedAsUntransferable } from 'node:worker_threads'
import type { Dispatcher } from 'undici'
import { Stop } from '../job/stop.ts'
import type { FairSlots } from '../sharing/fair-slots.ts'

/** After this many bytes, a response is paused until it has a slot for large answers. */
export const LARGE_ANSWER_BYTES = 64 * 1024
const SMALL_PIECE_BYTES = 2 * 1024
const BLOCK_BYTES = 16 * 1024

/**
 * Collects pieces without concatenating them: a body that turns out to be too large would briefly need twice its size. Very
 * small pieces share a block, because a buffer costs more memory than its bytes.
 */
export class ResponseBody {
  readonly #pieces: Buffer[]
  #block: Buffer | null = null
  #blockUsed = 0
  #lastReceived: ArrayBufferLike

  constructor(first: Buffer) {
    this.#pieces = [first]
    this.#lastReceived = first.buffer
  }

  /** The body takes ownership of the piece. */
  add(piece: Buffer): void {
    this.#lastReceived = piece.buffer
    if (piece.length >= SMALL_PIECE_BYTES) {
      this.#pieces.push(piece)
      this.#block = null
      return
    }
    if (this.#block === null || this.#blockUsed + piece.length > this.#block.length) {
      this.#block = Buffer.allocUnsafeSlow(BLOCK_BYTES)
      this.#blockUsed = 0
      this.#pieces.push(this.#block.subarray(0, 0))
    }
    piece.copy(this.#block, this.#blockUsed)
    this.#blockUsed += piece.length
    this.#pieces[this.#pieces.length - 1] = this.#block.subarray(0, this.#blockUsed)
  }

  toBuffer(): Buffer {
    return Buffer.concat(this.#pieces)
  }

  /**
   * Ends the body and frees its memory at once, because V8 collects dropped buffers only after 64 MB of them. Does not free the
   * memory of the last received piece, which may contain data that the connection has yet to parse.
   */
  discard(): void {
    for (const { buffer } of this.#pieces) {
      if (buffer !== this.#lastReceived) free(buffer)
    }
    this.#pieces.length = 0
  }
}

/** Does nothing for memory that several buffers share, such as that of small buffers. */
function free(buffer: ArrayBufferLike): void {
  if (!(buffer instanceof ArrayBuffer) || buffer.detached || isMarkedAsUntransferable(buffer)) return
  buffer.transfer(0)
}

/** All accounts have the same weight, because a slot is held only while an answer arrives. */
const WEIGHT = 1

/** The slot of one large answer. Its response is paused until the slot is acquired. */
export class LargeAnswerSlot {
  readonly #slots: FairSlots
  readonly #account: string
  readonly #released = new Stop()
  #held = false

  constructor(slots: FairSlots, account: string, controller: Dispatcher.DispatchController) {
    this.#slots = slots
    this.#account = account
    const acquired = slots.acquire(account, WEIGHT, this.#released)
    if (typeof acquired === 'boolean') {
      this.#held = acquired
      return
    }
    controller.pause()
    // In a microtask, because undici's parser must not be resumed in the callback of another response.
    void acquired.then((isHeld) => {
      if (!isHeld) return
      if (this.#released.reason !== null) {
        slots.release(account)
        return
      }
      this.#held = true
      controller.resume()
    })
  }

  release(): void {
    this.#released.now('release')
    if (this.#held) this.#slots.release(this.#account)
    this.#held = false
  }
}
