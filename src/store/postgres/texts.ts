/** Texts in Postgres that may be compressed: nodes compress them, with less CPU time than Postgres would take, and to less. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { asItIs, BASE64, type StoredText, storedText, storedTextOnThread } from '../compressed-text.ts'
import { binaryArray, textArray } from './text-array.ts'

/** Postgres itself compresses rows of this size, with five times the CPU time and to more. */
export const COMPRESS_FROM_BYTES = 2048
/** From so many characters on, a text is compressed on a thread; shorter ones cost less than a round trip to it. */
const ON_THREAD = 65_536
/** After so many characters, in less than two milliseconds, the event loop has its turn. */
const IN_ONE_TURN = 131_072

/** Selects a text: one that is compressed as base64, which takes two thirds of what Postgres writes of bytes. */
export const textOf = (row: string, column: 'messages' | 'content') =>
  `coalesce('${BASE64}' || encode(${row}.${column}_zstd, 'base64'), ${row}.${column})`

/** @param compress false while a node is alive that would not understand compressed texts */
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

/** The three columns of a text. */
export const STORED_TEXT_TYPES = ['bytea', 'integer', 'text'] as const

export function storedTextColumns(texts: readonly StoredText[]): unknown[] {
  const compressed = texts.map(({ compressed }) => compressed)
  return [
    compressed.every((one) => one === null) ? compressed : binaryArray(compressed, 'bytea'),
    texts.map(({ bytes }) => bytes),
    textArray(texts.map(({ plain }) => plain)),
  ]
}
