/** Reads a file line by line from any offset, one piece of the file at a time. */
import { PIECE_BYTES } from '../store/file-store.ts'

export interface InputLine {
  /** `bytes` is empty if the line is blank, and null if the line is too long. */
  readonly bytes: Uint8Array | null
  /** The next line begins at this offset. */
  readonly end: number
}

/** The reader throws this if the file was deleted before all of it was read. */
export class InputGone extends Error {
  override readonly name = 'InputGone'
}

export interface LineReaderOptions {
  readonly readPiece: (piece: number) => Promise<Uint8Array | null>
  readonly fileBytes: number
  readonly maxBytes: number
}

const NEWLINE = 10
/** A line with only spaces, tabs and carriage returns is blank. Lines of Windows files end with a carriage return. */
const BLANKS = [0x20, 0x09, 0x0d]
/** Many Windows programs begin a file with this byte order mark, which is not part of the first line. */
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf])
const EMPTY = new Uint8Array()

export class LineReader {
  readonly #options: LineReaderOptions
  #offset: number
  #piece: { readonly number: number; readonly bytes: Uint8Array } | null = null

  constructor(offset: number, options: LineReaderOptions) {
    this.#offset = offset
    this.#options = options
  }

  /** Returns the next line, or the line at `offset`; null at the end. */
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
    if (length > maxBytes) return { bytes: null, end: at }
    const line = Buffer.concat(parts)
    const bytes = offset === 0 ? withoutMark(line) : line
    return { bytes: bytes.every((byte) => BLANKS.includes(byte)) ? EMPTY : bytes, end: at }
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

function withoutMark(line: Buffer): Buffer {
  const { length } = BYTE_ORDER_MARK
  return line.subarray(0, length).equals(BYTE_ORDER_MARK) ? line.subarray(length) : line
}
