/**
 * Compresses large conversations and answers. A compressed text is stored in a separate column (`messages_zstd`, `content_zstd`),
 * with the size of the text in another (`messages_bytes`, `content_bytes`). The plain column is then null, or empty on SQLite.
 */
import { promisify } from 'node:util'
import {
  constants,
  createZstdCompress,
  type ZstdCompress,
  type ZstdOptions,
  zstdCompress,
  zstdCompressSync,
  zstdDecompressSync,
} from 'node:zlib'
import { type Row, textOf, textOrNull } from './rows.ts'

/** Larger than any text that is accepted: a stored text that claims more is damaged. */
const MAX_BYTES = 2 ** 29
const OPTIONS: ZstdOptions = { params: { [constants.ZSTD_c_compressionLevel]: 1 } }
/** Large enough that most compressed texts come in one piece. */
const LEAST_CHUNK = 16_384
let context: ZstdContext | undefined

function compress(text: Buffer): Buffer {
  context ??= new ZstdContext(OPTIONS)
  return context.compress(text)
}

const compressOnThread = promisify(zstdCompress)

/** A text in the form in which it is stored: plain or compressed. */
export interface StoredText {
  readonly plain: string | null
  readonly compressed: Uint8Array | null
  /** The size of a compressed text before compression. */
  readonly bytes: number | null
}

/**
 * Compresses the text on this thread if that makes it smaller.
 * @param fromBytes the size of the smallest text that is compressed
 */
export function storedText(text: string | null, fromBytes: number): StoredText {
  const whole = wholeOf(text, fromBytes)
  return whole === null ? asItIs(text) : smaller(text, whole, compress(whole))
}

/** Does the same on a thread of libuv's pool. */
export async function storedTextOnThread(text: string | null, fromBytes: number): Promise<StoredText> {
  const whole = wholeOf(text, fromBytes)
  return whole === null
    ? asItIs(text)
    : smaller(text, whole, await compressOnThread(whole, { ...OPTIONS, chunkSize: whole.length + 1024 }))
}

export function asItIs(text: string | null): StoredText {
  return { plain: text, compressed: null, bytes: null }
}

function wholeOf(text: string | null, fromBytes: number): Buffer | null {
  // UTF-8 has at most three bytes for each UTF-16 unit.
  if (text === null || text.length * 3 < fromBytes || text.length > MAX_BYTES) return null
  const whole = Buffer.from(text)
  return whole.length >= fromBytes && whole.length <= MAX_BYTES ? whole : null
}

function smaller(text: string | null, whole: Buffer, compressed: Buffer): StoredText {
  return compressed.length < whole.length ? { plain: null, compressed, bytes: whole.length } : asItIs(text)
}

/** Marks a compressed text that a store selects as base64: no JSON text starts with it. */
export const BASE64 = 'zstd:'

/** Reads a text that was selected by `Dialect.text`. */
export function storedTextOf(row: Row, column: string): string {
  return decompressed(row[column]) ?? textOf(row, column)
}

export function storedTextOrNull(row: Row, column: string): string | null {
  return decompressed(row[column]) ?? textOrNull(row, column)
}

/** Returns null if the value is not a compressed text. */
export function decompressed(value: unknown): string | null {
  if (value instanceof Uint8Array) return decompress(value)
  if (typeof value !== 'string' || !value.startsWith(BASE64)) return null
  return decompress(Buffer.from(value.slice(BASE64.length), 'base64'))
}

function decompress(compressed: Uint8Array): string {
  const chunkSize = Math.max(LEAST_CHUNK, 4 * compressed.length)
  return zstdDecompressSync(compressed, { maxOutputLength: MAX_BYTES, chunkSize }).toString()
}

interface Handle {
  /** Compresses to the end of the frame. Writes to `state` how much of the output and of the input is left. */
  writeSync(
    flush: number,
    from: Buffer,
    fromOffset: number,
    fromBytes: number,
    to: Buffer,
    toOffset: number,
    toBytes: number,
  ): void
}

/** Texts with an output up to this size share the same memory. */
const KEPT_BYTES = 262_144

/**
 * Compresses many small texts with one zstd context. `zstdCompressSync` creates a context for each call, which takes 25 of the 65
 * us for a text of 10 KB. Node has no documented way to reuse a context, so this uses the internal handle of a stream. If that
 * handle is not as expected, this falls back to `zstdCompressSync`.
 */
class ZstdContext {
  readonly #options: ZstdOptions
  #handle: Handle | null
  readonly #state: Uint32Array
  #output = Buffer.alloc(0)

  constructor(options: ZstdOptions) {
    this.#options = options
    const stream: ZstdCompress & { _handle?: unknown; _writeState?: unknown } = createZstdCompress(options)
    // After an error, this context is not used any longer.
    stream.on('error', () => {})
    const { _handle: handle, _writeState: state } = stream
    const isUsable = isHandle(handle) && state instanceof Uint32Array
    this.#handle = isUsable ? handle : null
    this.#state = isUsable ? state : new Uint32Array(2)
  }

  compress(text: Buffer): Buffer {
    if (this.#handle === null) return zstdCompressSync(text, this.#options)
    const to = this.#outputFor(text.length)
    // If compression fails, it writes nothing here, so values of the previous call must not remain.
    this.#state.fill(0)
    this.#handle.writeSync(constants.ZSTD_e_end, text, 0, text.length, to, 0, to.length)
    const [toLeft = 0, fromLeft] = this.#state
    if (toLeft === 0 || fromLeft !== 0) {
      this.#handle = null
      return zstdCompressSync(text, this.#options)
    }
    return Buffer.from(to.subarray(0, to.length - toLeft))
  }

  /** Larger than any zstd output for a text of this size. */
  #outputFor(bytes: number): Buffer {
    const most = bytes + (bytes >> 8) + 1024
    if (most > KEPT_BYTES) return Buffer.allocUnsafeSlow(most)
    if (most > this.#output.length) this.#output = Buffer.allocUnsafeSlow(KEPT_BYTES)
    return this.#output
  }
}

function isHandle(handle: unknown): handle is Handle {
  return typeof handle === 'object' && handle !== null && 'writeSync' in handle
}
