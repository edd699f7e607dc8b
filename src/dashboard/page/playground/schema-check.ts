/** Checks a schema with the same code that the server uses. */

import { type IgnoredKeywords, meetsStrictRules, readSchema } from 'parley-json-schema'

export interface SchemaVerdict {
  readonly kind: 'none' | 'fault' | 'good'
  readonly words: string
}

export function checkSchema(text: string): SchemaVerdict {
  if (text.trim() === '') return { kind: 'none', words: 'Without a schema, any JSON value is accepted.' }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    return { kind: 'fault', words: `Not valid JSON: ${positionOf(text, error)}` }
  }
  const read = readSchema(value)
  if (!read.ok) return { kind: 'fault', words: `response_format.${read.path} ${read.rule}` }
  const words = meetsStrictRules(read.schema)
    ? 'The schema is valid and strict: model servers can enforce it.'
    : 'The schema is valid, but is not sent as strict: for example, an object has optional properties or allows others, or strict servers do not support a keyword.'
  return { kind: 'good', words: words + notChecked(read.schema.ignored) }
}

function notChecked({ pointers, more }: IgnoredKeywords): string {
  const listed = more > 0 ? [...pointers, `${more} more`] : pointers
  return listed.length === 0 ? '' : ` Accepted, but not checked: ${listed.join(', ')}.`
}

/** The line and column of the error, if the browser reports its position. */
function positionOf(text: string, error: unknown): string {
  const words = error instanceof Error ? error.message : String(error)
  const position = /position (\d+)/.exec(words)?.[1]
  if (position === undefined) return words
  const before = text.slice(0, Number(position)).split('\n')
  const [what = words] = words.split(/ in JSON| at position/)
  return `${what} at line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1}.`
}
