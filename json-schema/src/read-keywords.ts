/**
 * Lists all known keywords: enforced keywords and annotations with the functions that read them, and rejected keywords with
 * what to use instead.
 */
import type { SchemaNode } from './answer-schema.ts'
import { ARRAY_KEYWORDS } from './read-arrays.ts'
import { COMBINED_KEYWORDS } from './read-combined.ts'
import { ignoreKeyword, type ReadContext, type ReadKeyword, reject } from './read-context.ts'
import { OBJECT_KEYWORDS } from './read-objects.ts'
import { VALUE_KEYWORDS } from './read-values.ts'

/** These annotations are clearly not rules, so they are not listed as unenforced. */
const DESCRIPTIONS: readonly (readonly [string, ReadKeyword])[] = [
  ['title', readText],
  ['description', readText],
  ['$comment', () => {}],
  ['$schema', readDialect],
]

/** An author may mistake these annotations for rules, so they are listed as unenforced. */
const UNENFORCED = [
  ...['readOnly', 'writeOnly', 'deprecated', 'example', 'examples', 'discriminator', 'contentEncoding'],
  ...['contentMediaType', 'contentSchema', '$vocabulary', 'externalDocs', 'xml'],
]

/** This is a map instead of an object, because an object would have a keyword named `constructor`. */
export const KEYWORDS: ReadonlyMap<string, ReadKeyword> = new Map([
  ...VALUE_KEYWORDS,
  ...OBJECT_KEYWORDS,
  ...ARRAY_KEYWORDS,
  ...COMBINED_KEYWORDS,
  ...DESCRIPTIONS,
  ...UNENFORCED.map((keyword) => [keyword, ignoreKeyword] as const),
])

/** These keywords next to a `$ref` have an effect even up to draft-07. None of them is a rule. */
export const BESIDE_REF: ReadonlySet<string> = new Set([
  ...['$ref', '$defs', 'definitions', '$schema', '$id', 'id', '$comment', 'title', 'description', 'default'],
])

function readText(_context: ReadContext, _node: SchemaNode, value: unknown): void {
  if (typeof value !== 'string') reject('must be a string')
}

function readDialect(context: ReadContext, _node: SchemaNode, _value: unknown, source: object): void {
  if (source === context.source && !context.dialect.isKnown) ignoreKeyword(context)
}

const UNEVALUATED = 'put the properties or items of all parts into one schema, and forbid others there'
const PROPERTY_RULES = 'use required, dependentRequired or anyOf instead'

/** Unsupported keywords are rejected, because ignoring a rule would accept wrong answers. */
const REMEDIES: ReadonlyMap<string, string> = new Map([
  ['$dynamicRef', 'use $ref instead'],
  ['$recursiveRef', 'use $ref instead'],
  ['unevaluatedProperties', UNEVALUATED],
  ['unevaluatedItems', UNEVALUATED],
  // Draft-03 has these keywords.
  ['divisibleBy', 'use multipleOf instead'],
  ['disallow', 'use not with a type instead'],
  ['extends', 'use allOf instead'],
  // Plugins of validators add these keywords.
  ['formatMinimum', 'use a pattern, or explain it in the description'],
  ['formatMaximum', 'use a pattern, or explain it in the description'],
  ['formatExclusiveMinimum', 'use a pattern, or explain it in the description'],
  ['formatExclusiveMaximum', 'use a pattern, or explain it in the description'],
  ['instanceof', 'use type instead'],
  ['typeof', 'use type instead'],
  ['range', 'use minimum and maximum instead'],
  ['exclusiveRange', 'use exclusiveMinimum and exclusiveMaximum instead'],
  ['regexp', 'use pattern instead'],
  ['uniqueItemProperties', 'explain it in the description instead'],
  ['allRequired', PROPERTY_RULES],
  ['anyRequired', PROPERTY_RULES],
  ['oneRequired', PROPERTY_RULES],
  ['patternRequired', PROPERTY_RULES],
  ['prohibited', 'use not with required instead'],
  ['deepProperties', 'use nested properties instead'],
  ['deepRequired', 'use nested required instead'],
  ['select', 'use anyOf with const instead'],
  ['selectCases', 'use anyOf with const instead'],
  ['selectDefault', 'use anyOf with const instead'],
  // JSON Type Definition (RFC 8927) has these keywords.
  ['elements', 'use type: "array" and items instead'],
  ['values', 'use type: "object" and additionalProperties instead'],
  ['optionalProperties', 'use properties, and omit their names from required'],
  ['mapping', 'use anyOf with const instead'],
])

/** Returns why an unknown keyword is rejected, or null if it may be ignored. */
type FindRejection = (keyword: string) => string | null

/** @param known the supported keywords; an unknown keyword may be a misspelling of one */
export function rejectionFinder(known: Iterable<string>): FindRejection {
  const names = [...known]
  const byLowerCase = new Map(names.map((name) => [name.toLowerCase(), name]))
  // One edit leaves the beginning or the end of a long name unchanged, so only names that share one of them are compared.
  const long = names.filter((name) => name.length >= MIN_LENGTH)
  const byStart = Map.groupBy(long, (name) => name.slice(0, 2))
  const byEnd = Map.groupBy(long, (name) => name.slice(-2))
  return (keyword) => {
    const remedy = REMEDIES.get(keyword)
    if (remedy !== undefined) return `is not supported; ${remedy}`
    // Extensions may have any name with this prefix.
    if (/^x-/i.test(keyword) || keyword.length > MAX_LENGTH) return null
    const sameLetters = byLowerCase.get(keyword.toLowerCase())
    const near = [...(byStart.get(keyword.slice(0, 2)) ?? []), ...(byEnd.get(keyword.slice(-2)) ?? [])]
    const meant = sameLetters ?? near.find((name) => isOneEdit(name, keyword))
    return meant === undefined ? null : `is not a keyword; did you mean ${meant}?`
  }
}

/** Too many words differ from shorter names by one edit, so shorter names are not corrected. */
const MIN_LENGTH = 6
const MAX_LENGTH = 40

/** One edit adds, removes or changes a letter, or swaps two neighbours. */
function isOneEdit(one: string, other: string): boolean {
  if (Math.abs(one.length - other.length) > 1) return false
  let start = 0
  while (start < one.length && one[start] === other[start]) start++
  let end = 0
  const shorter = Math.min(one.length, other.length) - start
  while (end < shorter && one.at(-1 - end) === other.at(-1 - end)) end++
  const left = one.slice(start, one.length - end)
  const right = other.slice(start, other.length - end)
  if (left.length <= 1 && right.length <= 1) return true
  return left.length === 2 && right.length === 2 && left[0] === right[1] && left[1] === right[0]
}
