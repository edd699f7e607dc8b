/** Parses JSON text from outside, with limited nesting. */
import { assertFitsHeap, FITS_ANY_HEAP } from './json-heap.ts'
import { isDeeperThan } from './scan-json.ts'

export type ReadJson =
  | { readonly ok: true; readonly value: unknown }
  /** If `tooDeep`, `error` continues "The body is". Otherwise it is the parser's error message, which quotes the text. */
  | { readonly ok: false; readonly tooDeep: boolean; readonly error: string }

/**
 * Parses JSON. Nesting is checked before parsing, because parsing millions of brackets would block the thread for seconds, and
 * so would each traversal of the result. Throws only `HeapTooSmall`, and only on a thread with a limited heap.
 * @param maxDepth how deep arrays and objects may be nested
 */
export function readJson(text: string, maxDepth: number): ReadJson {
  if (isDeeperThan(text, maxDepth)) {
    return { ok: false, tooDeep: true, error: `nested more than ${maxDepth} levels deep` }
  }
  if (text.length > FITS_ANY_HEAP) assertFitsHeap(text)
  try {
    return { ok: true, value: JSON.parse(text) }
  } catch (error) {
    return { ok: false, tooDeep: false, error: (error as Error).message }
  }
}

/**
 * Removes the quotation from the parser's error message. Responses and logs must not repeat the text, which may be part of a
 * prompt.
 */
export function withoutExcerpt(message: string): string {
  return message.replace(/, (\.\.\.)?".*$/s, '')
}

interface SourceContext {
  readonly source?: string
}
type SourceReviver = (this: unknown, key: string, value: unknown, context: SourceContext) => unknown

/** TypeScript's types do not include `JSON.rawJSON` and the source text of revivers yet. */
const exactJson = JSON as unknown as {
  parse(text: string, reviver: SourceReviver): unknown
  rawJSON(text: string): unknown
}

/**
 * Parses JSON, and keeps each number as it is written: 64-bit integers, `1e400`, `-0`. Pass the result only to
 * `JSON.stringify`. Use it only for short texts, because its time grows faster than the length of the text.
 */
export function parseExactly(text: string): unknown {
  return exactJson.parse(text, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined && source !== String(value)
      ? exactJson.rawJSON(source)
      : value,
  )
}

/** Whether parsing could change an integer in the text. From 16 digits on, several integers share a double. */
export function mayLoseDigits(text: string): boolean {
  return /\d{16}/.test(text)
}
