/**
 * A response body that arrives in several pieces, and the bound on the memory that large bodies take together.
 *
 * Nearly every answer arrives in one piece, which openai-client.ts uses directly; this file handles the others.
 */
import { isMarkedAsUntransferable } from 'node:worker_threads'
import type { Dispatcher } from 'undici'
import { Stop } from '../job/stop.ts'
import type { FairSlots } from '../sharing/fair-slots.ts'

/** An answer that grows beyond this needs a slot for large answers to be read further. */
export const LARGE_ANSWER_BYTES = 64 * 1024
const SMALL_PIECE_BYTES = 2 * 1024
const BLOCK_BYTES = 16 * 1024

/**
 * Collects pieces. They are not concatenated while they arrive, because a body that turns out to be too large would have
 * cost twice its size; but very small pieces share a block, because a buffer costs more memory than its bytes.
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

  /** The piece belongs to this body from now on. */
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
   * Gives the memory of the pieces back at once, and ends this body: V8 collects dropped buffers only after 64 MB of them. The
   * memory that the last piece came in is left to it, because the connection may still parse what else is there.
   */
  discard(): void {
    for (const { buffer } of this.#pieces) {
      if (buffer !== this.#lastReceived) free(buffer)
    }
    this.#pieces.length = 0
  }
}

/** Does nothing for memory that other buffers share, such as that of small ones. */
function free(buffer: ArrayBufferLike): void {
  if (!(buffer instanceof ArrayBuffer) || buffer.detached || isMarkedAsUntransferable(buffer)) return
  buffer.transfer(0)
}

/** All accounts have the same weight: a slot is held while an answer arrives, not for a share of the upstream. */
const WEIGHT = 1

/** The slot of one large answer: its response is paused until the slot is acquired. */
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
    // In a microtask: undici's parser must not be resumed from inside the callback of another response.
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
