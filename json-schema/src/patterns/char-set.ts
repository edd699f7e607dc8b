/** Represents sets of code points, such as `a`, `.`, `[a-z]`, `\d` or `\p{L}`. A character matches if it is in the set. */

/** `ranges` are pairs of first and last code points. They are sorted, and neither overlap nor touch. */
export interface CharSet {
  readonly ranges: readonly number[]
  readonly properties: readonly UnicodeProperty[]
  readonly negated: boolean
}

export interface UnicodeProperty {
  readonly name: string
  readonly negated: boolean
}

const MAX_CODE_POINT = 0x10ffff

/** ECMA-262 defines the characters of `\d`, `\w` and `\s`, and the line terminators, which `.` does not match. */
export const DIGITS: readonly number[] = [0x30, 0x39]
export const WORD_CHARACTERS: readonly number[] = [0x30, 0x39, 0x41, 0x5a, 0x5f, 0x5f, 0x61, 0x7a]
export const WHITE_SPACE: readonly number[] = [
  0x09, 0x0d, 0x20, 0x20, 0xa0, 0xa0, 0x1680, 0x1680, 0x2000, 0x200a, 0x2028, 0x2029, 0x202f, 0x202f, 0x205f,
  0x205f, 0x3000, 0x3000, 0xfeff, 0xfeff,
]
export const LINE_TERMINATORS: readonly number[] = [0x0a, 0x0a, 0x0d, 0x0d, 0x2028, 0x2029]

/**
 * A pattern may contain only these Unicode properties. A native regular expression tests each property. It is compiled when it
 * is first used, and callers must not cause hundreds of compilations.
 */
export const PROPERTY_NAMES: readonly string[] = [
  ...['L', 'Lu', 'Ll', 'Lt', 'Lm', 'Lo', 'M', 'Mn', 'Mc', 'N', 'Nd', 'Nl', 'No', 'P', 'S', 'Sc', 'Sm'],
  ...['Z', 'Zs', 'C', 'Cc', 'Letter', 'Number', 'Punctuation', 'Alphabetic', 'Uppercase', 'Lowercase'],
  ...['Script=Latin', 'Script=Greek', 'Script=Cyrillic', 'Script=Han', 'Script=Hiragana', 'Script=Katakana'],
  ...['Script=Hangul', 'Script=Arabic', 'Script=Hebrew', 'Script=Thai', 'Script=Devanagari', 'Emoji'],
]

const propertyTests = new Map<string, RegExp>()

function hasProperty(codePoint: number, name: string): boolean {
  let test = propertyTests.get(name)
  if (test === undefined) {
    test = new RegExp(`^\\p{${name}}$`, 'u')
    propertyTests.set(name, test)
  }
  return test.test(String.fromCodePoint(codePoint))
}

/** The unit is a step of `StepBudget`. */
export function costOf(set: CharSet): number {
  return 1 + set.properties.length * 5
}

export function singleChar(codePoint: number): CharSet {
  return { ranges: [codePoint, codePoint], properties: [], negated: false }
}

export function charSet(ranges: readonly number[], negated = false): CharSet {
  return { ranges, properties: [], negated }
}

/** `contains` uses binary search, so ranges must be sorted and merged. */
export function mergeRanges(ranges: readonly number[]): number[] {
  const pairs: [number, number][] = []
  for (let at = 0; at + 1 < ranges.length; at += 2) pairs.push([ranges[at] ?? 0, ranges[at + 1] ?? 0])
  pairs.sort((a, b) => a[0] - b[0])
  const out: number[] = []
  for (const [first, last] of pairs) {
    const end = out.at(-1)
    if (end !== undefined && first <= end + 1) out[out.length - 1] = Math.max(end, last)
    else out.push(first, last)
  }
  return out
}

/** `ranges` must be sorted and merged. */
export function complement(ranges: readonly number[]): number[] {
  const out: number[] = []
  let from = 0
  for (let at = 0; at + 1 < ranges.length; at += 2) {
    const first = ranges[at] ?? 0
    if (first > from) out.push(from, first - 1)
    from = (ranges[at + 1] ?? 0) + 1
  }
  if (from <= MAX_CODE_POINT) out.push(from, MAX_CODE_POINT)
  return out
}

export function contains(set: CharSet, codePoint: number): boolean {
  let found = inRanges(set.ranges, codePoint)
  if (!found) {
    for (const property of set.properties) {
      if (hasProperty(codePoint, property.name) !== property.negated) {
        found = true
        break
      }
    }
  }
  return found !== set.negated
}

function inRanges(ranges: readonly number[], codePoint: number): boolean {
  let low = 0
  let high = ranges.length >> 1
  while (low < high) {
    const middle = (low + high) >> 1
    if (codePoint < (ranges[2 * middle] ?? 0)) high = middle
    else if (codePoint > (ranges[2 * middle + 1] ?? 0)) low = middle + 1
    else return true
  }
  return false
}
