/** Keywords that are rejected, each with what to write instead, and the search for misspelt ones. */

const UNEVALUATED = 'write the properties or items of all parts into one schema and forbid others there'
const PROPERTY_RULES = 'write required, dependentRequired or anyOf instead'

/** Keywords that would have to be enforced and are not, of JSON Schema and of dialects of it. */
const REMEDIES: ReadonlyMap<string, string> = new Map([
  ['$dynamicRef', 'write $ref instead'],
  ['$recursiveRef', 'write $ref instead'],
  ['unevaluatedProperties', UNEVALUATED],
  ['unevaluatedItems', UNEVALUATED],
  // Draft-03.
  ['divisibleBy', 'write multipleOf instead'],
  ['disallow', 'write not with a type instead'],
  ['extends', 'write allOf instead'],
  // Keywords that plugins of validators add.
  ['formatMinimum', 'write a pattern, or say so in the description'],
  ['formatMaximum', 'write a pattern, or say so in the description'],
  ['formatExclusiveMinimum', 'write a pattern, or say so in the description'],
  ['formatExclusiveMaximum', 'write a pattern, or say so in the description'],
  ['instanceof', 'write type instead'],
  ['typeof', 'write type instead'],
  ['range', 'write minimum and maximum instead'],
  ['exclusiveRange', 'write exclusiveMinimum and exclusiveMaximum instead'],
  ['regexp', 'write pattern instead'],
  ['uniqueItemProperties', 'say so in the description instead'],
  ['allRequired', PROPERTY_RULES],
  ['anyRequired', PROPERTY_RULES],
  ['oneRequired', PROPERTY_RULES],
  ['patternRequired', PROPERTY_RULES],
  ['prohibited', 'write not with required instead'],
  ['deepProperties', 'write nested properties instead'],
  ['deepRequired', 'write nested required instead'],
  ['select', 'write anyOf with const instead'],
  ['selectCases', 'write anyOf with const instead'],
  ['selectDefault', 'write anyOf with const instead'],
  // JSON Type Definition (RFC 8927).
  ['elements', 'write type: "array" and items instead'],
  ['values', 'write type: "object" and additionalProperties instead'],
  ['optionalProperties', 'write properties, and leave their names out of required'],
  ['mapping', 'write anyOf with const instead'],
])

/** Finds what is wrong with a keyword that no reader knows; null if it may be ignored. */
export type FindRejection = (keyword: string) => string | null

/** @param known the keywords that readers know, which others may be misspellings of */
export function rejectionFinder(known: Iterable<string>): FindRejection {
  const names = [...known]
  const byLowerCase = new Map(names.map((name) => [name.toLowerCase(), name]))
  // One edit leaves the beginning or the end of a long name as it was.
  const long = names.filter((name) => name.length >= MIN_LENGTH)
  const byStart = Map.groupBy(long, (name) => name.slice(0, 2))
  const byEnd = Map.groupBy(long, (name) => name.slice(-2))
  return (keyword) => {
    const remedy = REMEDIES.get(keyword)
    if (remedy !== undefined) return `is not supported; ${remedy}`
    // Extensions are free to be called what they like.
    if (/^x-/i.test(keyword) || keyword.length > MAX_LENGTH) return null
    const sameLetters = byLowerCase.get(keyword.toLowerCase())
    const near = [...(byStart.get(keyword.slice(0, 2)) ?? []), ...(byEnd.get(keyword.slice(-2)) ?? [])]
    const meant = sameLetters ?? near.find((name) => isOneEdit(name, keyword))
    return meant === undefined ? null : `is not a keyword; did you mean ${meant}?`
  }
}

/** A shorter name is one letter away from too many words. */
const MIN_LENGTH = 6
const MAX_LENGTH = 40

/** Whether one letter is added, missing, different, or swapped with its neighbour. */
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
