/** Reads a file line by line from any offset, with at most a few pieces of it in memory. */
import { PIECE_BYTES } from '../store/file-store.ts'

export interface InputLine {
  /** Null if the line is too long. */
  readonly bytes: Uint8Array | null
  /** Where the next line begins. */
  readonly end: number
}

/** The file was deleted before all of it was read. */
export class InputGone extends Error {
  override readonly name = 'InputGone'
}

export interface LineReaderOptions {
  readonly readPiece: (piece: number) => Promise<Uint8Array | null>
  readonly fileBytes: number
  readonly maxBytes: number
}

const NEWLINE = 10

export class LineReader {
  readonly #options: LineReaderOptions
  #offset: number
  #piece: { readonly number: number; readonly bytes: Uint8Array } | null = null

  constructor(offset: number, options: LineReaderOptions) {
    this.#offset = offset
    this.#options = options
  }

  /** Returns the next line, or the one at `offset`; null at the end. */
  async next(offset = this.#offset): Promise<InputLine | null> {
    const { fileBytes, maxBytes } = this.#options
    const parts: Uint8Array[] = []
    let length = 0
    let at = offset
    if (at >= fileBytes) return null
    while (at < fileBytes) {
      const { bytes, number } = await this.#pieceAt(at)
      const from = at - number * PIECE_BYTES
      const found = bytes.indexOf(NEWLINE, from)
      const part = bytes.subarray(from, found === -1 ? bytes.length : found)
      length += part.length
      if (length <= maxBytes) parts.push(part)
      at += part.length
      if (found !== -1) {
        at += 1
        break
      }
    }
    this.#offset = at
    return { bytes: length > maxBytes ? null : Buffer.concat(parts), end: at }
  }

  async #pieceAt(offset: number) {
    const number = Math.floor(offset / PIECE_BYTES)
    if (this.#piece?.number === number) return this.#piece
    const bytes = await this.#options.readPiece(number)
    if (bytes === null) throw new InputGone('the input file was deleted while it was read')
    this.#piece = { number, bytes }
    return this.#piece
  }
}
