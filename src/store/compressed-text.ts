/**
 * Compresses large conversations and answers. Columns such as `messages_zstd` have compressed texts, and `messages_bytes` their
 * sizes before compression. The plain column is then null; only `messages` on SQLite is empty instead.
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

/** Parley accepts no text of this size, so a stored text that decompresses to more is damaged. */
const MAX_BYTES = 2 ** 29
const OPTIONS: ZstdOptions = { params: { [constants.ZSTD_c_compressionLevel]: 1 } }
/** The buffer for a decompressed text has at least this size, so that a short text needs only one. */
const LEAST_CHUNK = 16_384
let context: ZstdContext | undefined

function compress(text: Buffer): Buffer {
  context ??= new ZstdContext(OPTIONS)
  return context.compress(text)
}

const compressOnThread = promisify(zstdCompress)

export interface StoredText {
  readonly plain: string | null
  readonly compressed: Uint8Array | null
  readonly bytes: number | null
}

/** @param fromBytes texts with fewer bytes stay plain, and so do texts that would not become smaller */
export function storedText(text: string | null, fromBytes: number): StoredText {
  const whole = wholeOf(text, fromBytes)
  return whole === null ? asItIs(text) : smaller(text, whole, compress(whole))
}

/** Works like `storedText`, but compresses on a thread of libuv's pool. */
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
  // A UTF-16 unit takes at most three bytes, so short texts need not be encoded.
  if (text === null || text.length * 3 < fromBytes || text.length > MAX_BYTES) return null
  const whole = Buffer.from(text)
  return whole.length >= fromBytes && whole.length <= MAX_BYTES ? whole : null
}

function smaller(text: string | null, whole: Buffer, compressed: Buffer): StoredText {
  return compressed.length < whole.length ? { plain: null, compressed, bytes: whole.length } : asItIs(text)
}

/** A store may select a compressed text as base64 with this prefix. No JSON text starts with it. */
export const BASE64 = 'zstd:'

export function storedTextOf(row: Row, column: string): string {
  return decompressed(row[column]) ?? textOf(row, column)
}

export function storedTextOrNull(row: Row, column: string): string | null {
  return decompressed(row[column]) ?? textOrNull(row, column)
}

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
  /** Stores in the stream's `_writeState` how many bytes of the output and of the input are left. */
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

/** Texts share an output buffer of this size. A text whose output may be larger gets a separate buffer. */
const KEPT_BYTES = 262_144

/**
 * Compresses many small texts with one zstd context, because creating a context for each takes 25 of the 65 µs for a text of 10
 * KB. Node has no documented way to reuse a context, so this class uses the internal handle of a stream. If the handle is not
 * as expected, it uses `zstdCompressSync`.
 */
class ZstdContext {
  readonly #options: ZstdOptions
  #handle: Handle | null
  readonly #state: Uint32Array
  #output = Buffer.alloc(0)

  constructor(options: ZstdOptions) {
    this.#options = options
    const stream: ZstdCompress & { _handle?: unknown; _writeState?: unknown } = createZstdCompress(options)
    // After an error, `compress` no longer uses this context.
    stream.on('error', () => {})
    const { _handle: handle, _writeState: state } = stream
    const isUsable = isHandle(handle) && state instanceof Uint32Array
    this.#handle = isUsable ? handle : null
    this.#state = isUsable ? state : new Uint32Array(2)
  }

  compress(text: Buffer): Buffer {
    if (this.#handle === null) return zstdCompressSync(text, this.#options)
    const to = this.#outputFor(text.length)
    // A failed compression writes nothing here, so the values of the previous call must be cleared.
    this.#state.fill(0)
    this.#handle.writeSync(constants.ZSTD_e_end, text, 0, text.length, to, 0, to.length)
    const [toLeft = 0, fromLeft] = this.#state
    if (toLeft === 0 || fromLeft !== 0) {
      this.#handle = null
      return zstdCompressSync(text, this.#options)
    }
    return Buffer.from(to.subarray(0, to.length - toLeft))
  }

  /** The buffer is larger than zstd's output for any text of this size. */
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
