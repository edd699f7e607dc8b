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
    const length = Number(request.headers['content-length'])
    if (this.#arriving + length > this.#maxBytes) return false
    this.#arriving += length
    const pieces: Buffer[] = []
    const end = (body: Buffer | null): void => {
      request.off('data', onData).off('end', onEnd).off('close', onClose)
      this.#arriving -= length
      done(body)
    }
    const onData = (piece: Buffer): void => {
      pieces.push(piece)
    }
    const onEnd = (): void => {
      const [first] = pieces
      end(pieces.length === 1 && first !== undefined ? first : Buffer.concat(pieces))
    }
    const onClose = (): void => end(null)
    request.on('data', onData).on('end', onEnd).on('close', onClose)
    return true
  }
}
