/** Parses JSON text from outside, with limited nesting, and only if the heap of the thread suffices. */
import { resourceLimits } from 'node:worker_threads'
import { isDeeperThan, skipSpace, stringEnd } from './scan-json.ts'

export type ReadJson =
  | { readonly ok: true; readonly value: unknown }
  /** If `tooDeep`, `error` continues "The body is". Otherwise it is the parser's error message, which quotes the text. */
  | { readonly ok: false; readonly tooDeep: boolean; readonly error: string }

/**
 * Checks the nesting before parsing, because millions of brackets would block the thread for seconds, and so would each
 * traversal of the result. Throws only `HeapTooSmall`, and only on a thread with a limited heap.
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
 * Removes the quotation from the parser's error message, because responses and logs must not repeat a text that may be part of
 * a prompt.
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
 * Keeps each number as it is written: 64-bit integers, `1e400`, `-0`. Pass the result only to `JSON.stringify`. Parse only
 * short texts with this, because its time grows faster than the length of the text.
 */
export function parseExactly(text: string): unknown {
  return exactJson.parse(text, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined && source !== String(value)
      ? exactJson.rawJSON(source)
      : value,
  )
}

/** Whether parsing could change an integer in the text. From 16 digits on, several integers can share a double. */
export function mayLoseDigits(text: string): boolean {
  return /\d{16}/.test(text)
}

/*
 * A text must not be parsed in a thread whose heap is too small for it, because the parser does not notice that Node.js has
 * terminated the thread. Then either the whole process ends, or the parser continues for minutes. The estimate leaves out what
 * the thread itself holds, up to 28 MiB. If a heap is too small only by that much, only the thread ends.
 */

export class HeapTooSmall extends Error {
  constructor() {
    super('Parsing the JSON text may need more memory than the heap of the thread.')
  }
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const COLON = 0x3a
const BRACKET = 0x5b
const BRACE = 0x7b
const ZERO = 0x30
const NINE = 0x39

/** A text of strings takes two bytes for each character, in the text itself and in its values. */
const BYTES_PER_CHARACTER = 4
/**
 * A value takes this much with its place in an object or array. Objects and arrays count twice: once for themselves and once
 * for the comma behind them.
 */
const BYTES_PER_VALUE = 80
/** A member whose name may be an array index, as in `{"31":1}`, counts this much: V8 may allocate an array up to that index. */
const BYTES_PER_INDEX = 256
/** The estimate never exceeds this for each character of a JSON text; `"9":{},` comes closest. */
const MAX_BYTES_PER_CHARACTER = 64

/** A shorter text fits into the heap of any thread, so it needs no `assertFitsHeap`. */
export const FITS_ANY_HEAP = 256 * 1024

/** Throws `HeapTooSmall` if this is a thread with a limited heap, and parsing the text may need more. */
export function assertFitsHeap(text: string): void {
  const { maxOldGenerationSizeMb } = resourceLimits
  if (maxOldGenerationSizeMb === undefined) return
  if (mayNeedMoreHeap(text, maxOldGenerationSizeMb * 1024 * 1024)) throw new HeapTooSmall()
}

/** Takes linear time, and accepts any text. */
export function mayNeedMoreHeap(text: string, heapBytes: number): boolean {
  if (text.length * MAX_BYTES_PER_CHARACTER <= heapBytes) return false
  let bytes = text.length * BYTES_PER_CHARACTER
  for (let at = 0; at < text.length && bytes <= heapBytes; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) {
      const end = stringEnd(text, at + 1)
      if (mayBeIndex(text, at + 1) && text.charCodeAt(skipSpace(text, end + 1)) === COLON)
        bytes += BYTES_PER_INDEX
      at = end
    } else if (code === COMMA || code === BRACE || code === BRACKET) bytes += BYTES_PER_VALUE
  }
  return bytes > heapBytes
}

/** The digit may be escaped, as in `"\u0031"`. */
function mayBeIndex(text: string, from: number): boolean {
  const first = text.charCodeAt(from)
  return first === BACKSLASH || (first >= ZERO && first <= NINE)
}
