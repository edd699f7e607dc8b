/** Parses JSON text from outside, with bounded nesting. */
import { isDeeperThan } from './scan-json.ts'

export type ReadJson =
  | { readonly ok: true; readonly value: unknown }
  /** `error` completes "the text is" if `tooDeep` is set; otherwise it is the parser's message, which quotes the text. */
  | { readonly ok: false; readonly tooDeep: boolean; readonly error: string }

/**
 * Never throws. Nesting is checked before parsing, because parsing millions of brackets would block the thread for seconds, and
 * so would every walk through the result.
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

/** `JSON.rawJSON` and the reviver's source text are not in the library's types yet. */
const exactJson = JSON as unknown as {
  parse(text: string, reviver: SourceReviver): unknown
  rawJSON(text: string): unknown
}

/**
 * Parses JSON and keeps every number as written: 64-bit integers, `1e400`, `-0`. Only for short texts, because the time grows
 * faster than the text. The result can only be used with `JSON.stringify`.
 */
export function parseExactly(text: string): unknown {
  return exactJson.parse(text, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined && source !== String(value)
      ? exactJson.rawJSON(source)
      : value,
  )
}
