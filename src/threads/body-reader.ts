/** Reads the small bodies of plain requests, whose length is known. */
import type { IncomingMessage } from 'node:http'

export class BodyReader {
  readonly #maxBytes: number
  #arriving = 0

  /** @param maxBytes of all bodies that arrive at the same time */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /**
   * Calls `done` once, with the whole body, or with null if the client hung up. False, and nothing happens, if so much is arriving
   * already that the main thread must decide.
   */
  read(request: IncomingMessage, done: (body: Buffer | null) => void): boolean {
    // No event follows.
    if (request.destroyed) {
      done(null)
      return true
    }
    const length = Number(request.headers['content-length'])
    if (this.#arriving + length > this.#maxBytes) return false
    this.#arriving += length
    let whole: Buffer | null = null
    let received = 0
    const end = (body: Buffer | null): void => {
      request.off('data', onData).off('end', onEnd).off('close', onClose)
      this.#arriving -= length
      done(body)
    }
    const onData = (piece: Buffer): void => {
      // The whole body in one piece, which Node allocated for it.
      if (piece.length === length) whole = piece
      else {
        whole ??= Buffer.allocUnsafe(length)
        // A copy, so that a body in many small pieces does not take more memory than one in a few large ones.
        piece.copy(whole, received)
      }
      received += piece.length
    }
    const onEnd = (): void => end(whole)
    const onClose = (): void => end(null)
    request.on('data', onData).on('end', onEnd).on('close', onClose)
    return true
  }
}
