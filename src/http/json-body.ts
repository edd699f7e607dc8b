/** JSON bodies: valid UTF-8 with bounded nesting. */
import { isUtf8 } from 'node:buffer'
import { readJson, withoutExcerpt } from '../json-text/read-json.ts'
import { notJson } from './errors.ts'

/** Throws an `HttpError` that says what is wrong. */
export function bodyText(bytes: Buffer): string {
  if (bytes.length === 0) throw notJson('The body is empty.')
  if (!isUtf8(bytes)) throw notJson('The body is not valid UTF-8.')
  return bytes.toString('utf8')
}

/** Throws an `HttpError` that says what is wrong. */
export function parseBody(text: string, maxDepth: number): unknown {
  const read = readJson(text, maxDepth)
  if (read.ok) return read.value
  throw notJson(read.tooDeep ? `The body is ${read.error}.` : withoutExcerpt(read.error))
}
