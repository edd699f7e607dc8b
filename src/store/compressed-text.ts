/**
 * Compresses large conversations and answers. A compressed text is stored in a separate column (`messages_zstd`, `content_zstd`),
 * with the size of the text in another (`messages_bytes`, `content_bytes`). The plain column is then null, or empty on SQLite.
 */
import { promisify } from 'node:util'
import { constants, type ZstdOptions, zstdCompress, zstdDecompressSync } from 'node:zlib'
import { type Row, textOf, textOrNull } from './rows.ts'
import { ZstdContext } from './zstd-context.ts'

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
