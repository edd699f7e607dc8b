/**
 * Texts in Postgres. Nodes compress texts, because this takes less CPU time than in Postgres and gives a better result. They
 * pass large columns in Postgres' binary format, because escaping each quote would block the event loop.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { asItIs, BASE64, type StoredText, storedText, storedTextOnThread } from '../compressed-text.ts'

/**
 * Texts from this size on are compressed. Postgres would compress rows of this size itself, with several times the CPU time and
 * a worse result.
 */
export const COMPRESS_FROM_BYTES = 2048
/** Shorter texts are not compressed on a thread, because sending them there would cost more. */
const ON_THREAD = 65_536
/** Compressing this many characters takes up to two milliseconds. Then other work of the event loop gets a turn. */
const IN_ONE_TURN = 131_072

/** A compressed text comes as base64, which has two thirds of the size of Postgres' hexadecimal output. */
export const textOf = (row: string, column: 'messages' | 'content') =>
  `coalesce('${BASE64}' || encode(${row}.${column}_zstd, 'base64'), ${row}.${column})`

/** @param compress false while a node that does not know compressed texts might read these texts */
export async function storedTexts(
  texts: readonly (string | null)[],
  compress: boolean,
): Promise<StoredText[]> {
  const stored: StoredText[] = []
  let inThisTurn = 0
  for (const text of texts) {
    const characters = text?.length ?? 0
    if (!compress) stored.push(asItIs(text))
    else if (characters >= ON_THREAD) stored.push(await storedTextOnThread(text, COMPRESS_FROM_BYTES))
    else {
      inThisTurn += characters
      if (inThisTurn > IN_ONE_TURN) {
        await nextTurn()
        inThisTurn = characters
      }
      stored.push(storedText(text, COMPRESS_FROM_BYTES))
    }
  }
  return stored
}

export const STORED_TEXT_TYPES = ['bytea', 'integer', 'text'] as const

export function storedTextColumns(texts: readonly StoredText[]): unknown[] {
  const compressed = texts.map(({ compressed }) => compressed)
  return [
    compressed.every((one) => one === null) ? compressed : binaryArray(compressed, 'bytea'),
    texts.map(({ bytes }) => bytes),
    textArray(texts.map(({ plain }) => plain)),
  ]
}

/** An array with fewer characters is left to the driver, which escapes it in less than a millisecond. */
const LARGE = 65_536

const OIDS = { bytea: 17, text: 25 }

/** An array with 10 MB of JSON would take the driver 200 ms, so large ones are encoded here. */
export function textArray(values: readonly (string | null)[]): readonly (string | null)[] | Buffer {
  const characters = values.reduce((sum, value) => sum + (value?.length ?? 0), 0)
  return characters < LARGE ? values : binaryArray(values, 'text')
}

/** Returns whether a column is so large that copying it should get its own turn of the event loop. */
export function hasLarge(columns: readonly unknown[]): boolean {
  return columns.some((column) => Buffer.isBuffer(column) && column.length > LARGE)
}

/** Encodes a one-dimensional array with lower bound 1: for each element its length and its bytes, or the length -1 for null. */
function binaryArray(values: readonly (string | Uint8Array | null)[], type: keyof typeof OIDS): Buffer {
  const lengths = values.map((value) => (value === null ? -1 : Buffer.byteLength(value)))
  const bytes = lengths.reduce((sum, length) => sum + 4 + Math.max(0, length), 20)
  const buffer = Buffer.allocUnsafe(bytes)
  let at = 0
  for (const header of [1, lengths.includes(-1) ? 1 : 0, OIDS[type], values.length, 1]) {
    at = buffer.writeInt32BE(header, at)
  }
  for (const [index, value] of values.entries()) {
    at = buffer.writeInt32BE(lengths[index] ?? -1, at)
    if (typeof value === 'string') at += buffer.write(value, at)
    else if (value !== null) {
      buffer.set(value, at)
      at += value.length
    }
  }
  return buffer
}
