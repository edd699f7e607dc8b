/** Compressible texts in Postgres. Nodes compress them, using less CPU time than Postgres, for a better result. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { asItIs, BASE64, type StoredText, storedText, storedTextOnThread } from '../compressed-text.ts'
import { binaryArray, textArray } from './text-array.ts'

/** Postgres compresses rows of this size itself, using five times the CPU time for a worse result. */
export const COMPRESS_FROM_BYTES = 2048
/** A text of at least this many characters is compressed on a thread; for a shorter one, the round trip would cost more. */
const ON_THREAD = 65_536
/** After this many characters, which take up to two milliseconds, other work of the event loop gets its turn. */
const IN_ONE_TURN = 131_072

/** Selects a text. A compressed one comes as base64, which is two thirds of the size of Postgres' hexadecimal output. */
export const textOf = (row: string, column: 'messages' | 'content') =>
  `coalesce('${BASE64}' || encode(${row}.${column}_zstd, 'base64'), ${row}.${column})`

/** @param compress false while a live node would not understand compressed texts */
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

/** The types of the three columns of a text. */
export const STORED_TEXT_TYPES = ['bytea', 'integer', 'text'] as const

export function storedTextColumns(texts: readonly StoredText[]): unknown[] {
  const compressed = texts.map(({ compressed }) => compressed)
  return [
    compressed.every((one) => one === null) ? compressed : binaryArray(compressed, 'bytea'),
    texts.map(({ bytes }) => bytes),
    textArray(texts.map(({ plain }) => plain)),
  ]
}
