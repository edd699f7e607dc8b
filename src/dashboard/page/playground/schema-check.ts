/** What the server will say of a schema: read here by the very code that reads it there. */

import { readSchema } from '../../../json-schema/read-schema.ts'
import { meetsStrictRules } from '../../../json-schema/strict-rules.ts'

export interface SchemaVerdict {
  readonly kind: 'none' | 'fault' | 'good'
  readonly words: string
}

export function checkSchema(text: string): SchemaVerdict {
  if (text.trim() === '') return { kind: 'none', words: 'Without a schema any JSON value is right.' }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    return { kind: 'fault', words: `No JSON yet: ${placeOf(text, error)}` }
  }
  const read = readSchema(value)
  if (!read.ok) return { kind: 'fault', words: `response_format.${read.path} ${read.rule}` }
  return {
    kind: 'good',
    words: meetsStrictRules(read.schema)
      ? 'The schema is fine, and strict: model servers can be held to it as they write.'
      : 'The schema is fine. It is sent without strict, because not every object requires all its properties and allows no others.',
  }
}

/** Line and column, where the browser tells the place. */
function placeOf(text: string, error: unknown): string {
  const words = error instanceof Error ? error.message : String(error)
  const position = /position (\d+)/.exec(words)?.[1]
  if (position === undefined) return words
  const before = text.slice(0, Number(position)).split('\n')
  const [what = words] = words.split(/ in JSON| at position/)
  return `${what} at line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1}.`
}
