/** Parses JSON text from outside, with bounded nesting. */
import { isDeeperThan } from './scan-json.ts'

export type ReadJson =
  | { readonly ok: true; readonly value: unknown }
  /** If `tooDeep`, `error` completes "the text is"; otherwise it is the parser's own error, which quotes the text. */
  | { readonly ok: false; readonly tooDeep: boolean; readonly error: string }

/**
 * Never throws. It checks nesting before it parses: parsing millions of brackets would block the thread for seconds, and so
 * would every traversal of the result.
 */
export function readJson(text: string, maxDepth: number): ReadJson {
  if (isDeeperThan(text, maxDepth)) {
    return { ok: false, tooDeep: true, error: `nested more than ${maxDepth} levels deep` }
  }
  try {
    return { ok: true, value: JSON.parse(text) }
  } catch (error) {
    return { ok: false, tooDeep: false, error: (error as Error).message }
  }
}

/** The parser's error without its quotation, because responses and logs must not repeat text that may be part of a prompt. */
export function withoutExcerpt(message: string): string {
  return message.replace(/, (\.\.\.)?".*$/s, '')
}

interface SourceContext {
  readonly source?: string
}
type SourceReviver = (this: unknown, key: string, value: unknown, context: SourceContext) => unknown

/** The library's types do not have `JSON.rawJSON` and the reviver's source text yet. */
const exactJson = JSON as unknown as {
  parse(text: string, reviver: SourceReviver): unknown
  rawJSON(text: string): unknown
}

/**
 * Parses JSON and keeps every number as written: 64-bit integers, `1e400`, `-0`. Use it only for short texts, because the time
 * grows faster than the text, and pass the result only to `JSON.stringify`.
 */
export function parseExactly(text: string): unknown {
  return exactJson.parse(text, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined && source !== String(value)
      ? exactJson.rawJSON(source)
      : value,
  )
}

/** Whether parsing could change an integer of the text: from 16 digits on, not every one has a double of its own. */
export function mayLoseDigits(text: string): boolean {
  return /\d{16}/.test(text)
}
