/** All keywords that are known, with the function that reads each: those that are enforced, and annotations. */
import type { SchemaNode } from './answer-schema.ts'
import { ARRAY_KEYWORDS } from './read-arrays.ts'
import { COMBINED_KEYWORDS } from './read-combined.ts'
import { ignoreKeyword, type ReadContext, type ReadKeyword, reject } from './read-context.ts'
import { OBJECT_KEYWORDS } from './read-objects.ts'
import { VALUE_KEYWORDS } from './read-values.ts'

/** Annotations that nobody mistakes for a rule, so not enforcing them loses nothing. */
const DESCRIPTIONS: readonly (readonly [string, ReadKeyword])[] = [
  ['title', readText],
  ['description', readText],
  ['$comment', () => {}],
  ['$schema', readDialect],
]

/** Annotations that an author may mistake for a rule, so they are listed as not enforced. */
const UNENFORCED = [
  ...['readOnly', 'writeOnly', 'deprecated', 'example', 'examples', 'discriminator', 'contentEncoding'],
  ...['contentMediaType', 'contentSchema', '$vocabulary', 'externalDocs', 'xml'],
]

/** A map and not an object, so that a keyword called `constructor` is simply unknown. */
export const KEYWORDS: ReadonlyMap<string, ReadKeyword> = new Map([
  ...VALUE_KEYWORDS,
  ...OBJECT_KEYWORDS,
  ...ARRAY_KEYWORDS,
  ...COMBINED_KEYWORDS,
  ...DESCRIPTIONS,
  ...UNENFORCED.map((keyword) => [keyword, ignoreKeyword] as const),
])

/** Keywords that keep their meaning next to a `$ref` that stands alone, as in draft-07: none of them is a rule. */
export const BESIDE_REF: ReadonlySet<string> = new Set([
  ...['$ref', '$defs', 'definitions', '$schema', '$id', 'id', '$comment', 'title', 'description', 'default'],
])

function readText(_context: ReadContext, _node: SchemaNode, value: unknown): void {
  if (typeof value !== 'string') reject('must be a string')
}

function readDialect(context: ReadContext, _node: SchemaNode, _value: unknown, source: object): void {
  if (source === context.source && !context.dialect.isKnown) ignoreKeyword(context)
}
