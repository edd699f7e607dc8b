/**
 * Parses JSON bodies: valid UTF-8 with bounded nesting, and with every digit of a number where a caller's payload must be
 * returned as it was sent.
 */
import { isUtf8 } from 'node:buffer'
import { notJson } from './errors.ts'

const BRACE = 0x7b
const BRACKET = 0x5b
const BRACE_END = 0x7d
const BRACKET_END = 0x5d
const QUOTE = 0x22
const BACKSLASH = 0x5c

/** Throws an `HttpError` that says what is wrong. */
export function parseBody(bytes: Buffer, maxDepth: number): unknown {
  if (bytes.length === 0) throw notJson('The body is empty.')
  if (!isUtf8(bytes)) throw notJson('The body is not valid UTF-8.')
  if (isDeeperThan(bytes, maxDepth)) throw notJson(`The body is nested more than ${maxDepth} levels deep.`)
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch (error) {
    throw notJson(withoutExcerpt((error as Error).message))
  }
}

/** The parser quotes the text that it rejects; an error must not repeat what may be part of a prompt. */
function withoutExcerpt(message: string): string {
  return message.replace(/, (\.\.\.)?".*$/s, '')
}

/** Whether arrays and objects nest deeper than the limit, found without recursion. */
export function isDeeperThan(bytes: Uint8Array, limit: number): boolean {
  let depth = 0
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]
    if (byte === QUOTE) {
      at = stringEnd(bytes, at + 1)
    } else if (byte === BRACE || byte === BRACKET) {
      depth += 1
      if (depth > limit) return true
    } else if (byte === BRACE_END || byte === BRACKET_END) {
      depth -= 1
    }
  }
  return false
}

/** Where the string that starts here ends. Most of a body is the text of messages, so native code searches it. */
function stringEnd(bytes: Uint8Array, from: number): number {
  for (let at = from; ; at++) {
    at = bytes.indexOf(QUOTE, at)
    if (at === -1) return bytes.length
    let backslashes = 0
    while (bytes[at - 1 - backslashes] === BACKSLASH) backslashes += 1
    if (backslashes % 2 === 0) return at
  }
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
 * Parses again and keeps every number as it was written: 64-bit integers, `1e400`, `-0`. Takes three times as long as a
 * plain parse. The result is only fit for `JSON.stringify`.
 */
export function parseExactly(bytes: Buffer): unknown {
  return exactJson.parse(bytes.toString('utf8'), (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined && source !== String(value)
      ? exactJson.rawJSON(source)
      : value,
  )
}
