/**
 * Reads a `pattern`, a regular expression of ECMA-262, into a tree. Rejects back-references and look-around, which cannot be
 * matched in linear time, and syntax that dialects interpret differently.
 */

import { MAX_PATTERN_DEPTH, MAX_PATTERN_LENGTH, MAX_PATTERN_SIZE } from '../limits.ts'
import {
  type CharSet,
  charSet,
  complement,
  DIGITS,
  LINE_TERMINATORS,
  mergeRanges,
  PROPERTY_NAMES,
  singleChar,
  type UnicodeProperty,
  WHITE_SPACE,
  WORD_CHARACTERS,
} from './char-set.ts'

/** The tree does not distinguish lazy and greedy repetitions, because only the existence of a match matters. */
export type PatternTree =
  | { readonly kind: 'set'; readonly set: CharSet }
  | { readonly kind: 'assertion'; readonly assertion: Assertion }
  | { readonly kind: 'sequence'; readonly parts: readonly PatternTree[] }
  | { readonly kind: 'alternation'; readonly options: readonly PatternTree[] }
  | { readonly kind: 'repeat'; readonly part: PatternTree; readonly min: number; readonly max: number }

export type Assertion = 'start' | 'end' | 'word-boundary' | 'no-word-boundary'

/** Contains the reason why a pattern is rejected. `readPattern` catches it. */
export class PatternRejected extends Error {}

interface PatternCursor {
  readonly text: string
  at: number
  depth: number
}

export type ReadPatternResult =
  | { readonly ok: true; readonly tree: PatternTree; readonly size: number }
  | { readonly ok: false; readonly rule: string }

/** Never throws. `size` is the number of instructions of the compiled pattern, or slightly more. */
export function readPattern(text: string): ReadPatternResult {
  if (text.length > MAX_PATTERN_LENGTH) {
    return { ok: false, rule: `must have at most ${MAX_PATTERN_LENGTH} characters` }
  }
  const cursor: PatternCursor = { text, at: 0, depth: 0 }
  try {
    const tree = readAlternation(cursor)
    if (cursor.at < text.length) return { ok: false, rule: 'has a ")" without a "("' }
    const size = sizeOf(tree)
    if (size > MAX_PATTERN_SIZE) {
      return {
        ok: false,
        rule: `is too large: with its repetitions expanded, it has more than ${MAX_PATTERN_SIZE} parts`,
      }
    }
    return { ok: true, tree, size }
  } catch (error) {
    if (error instanceof PatternRejected) return { ok: false, rule: error.message }
    throw error
  }
}

/** An empty sequence counts as one. Otherwise, compiling `(){1000000000}` would never end. */
function sizeOf(tree: PatternTree): number {
  switch (tree.kind) {
    case 'set':
    case 'assertion':
      return 1
    case 'sequence':
      return tree.parts.reduce((sum, part) => sum + sizeOf(part), 1)
    case 'alternation':
      return tree.options.reduce((sum, option) => sum + sizeOf(option) + 2, 0)
    case 'repeat': {
      const size = sizeOf(tree.part)
      const optional = tree.max === Number.POSITIVE_INFINITY ? 1 : tree.max - tree.min
      return tree.min * size + optional * (size + 2)
    }
  }
}

function readAlternation(cursor: PatternCursor): PatternTree {
  const options = [readSequence(cursor)]
  while (cursor.text[cursor.at] === '|') {
    cursor.at++
    options.push(readSequence(cursor))
  }
  const [only] = options
  return only !== undefined && options.length === 1 ? only : { kind: 'alternation', options }
}

function readSequence(cursor: PatternCursor): PatternTree {
  const parts: PatternTree[] = []
  while (cursor.at < cursor.text.length) {
    const next = cursor.text[cursor.at]
    if (next === '|' || next === ')') break
    parts.push(readRepeat(cursor, readAtom(cursor), next === '('))
  }
  const [only] = parts
  return only !== undefined && parts.length === 1 ? only : { kind: 'sequence', parts }
}

function readAtom(cursor: PatternCursor): PatternTree {
  const codePoint = cursor.text.codePointAt(cursor.at) ?? 0
  const char = String.fromCodePoint(codePoint)
  switch (char) {
    case '(':
      return readGroup(cursor)
    case '[':
      return { kind: 'set', set: readClass(cursor) }
    case '\\':
      return escapeTree(readEscape(cursor))
    case '*':
    case '+':
    case '?':
      throw new PatternRejected(`has a "${char}" with nothing before it to repeat`)
  }
  cursor.at += char.length
  if (char === '.') return { kind: 'set', set: charSet(LINE_TERMINATORS, true) }
  if (char === '^') return { kind: 'assertion', assertion: 'start' }
  if (char === '$') return { kind: 'assertion', assertion: 'end' }
  return { kind: 'set', set: singleChar(codePoint) }
}

function escapeTree(read: Escape): PatternTree {
  switch (read.kind) {
    case 'assertion':
      return read
    case 'char':
      return { kind: 'set', set: singleChar(read.codePoint) }
    case 'ranges':
      return { kind: 'set', set: charSet(read.ranges) }
    case 'property':
      return { kind: 'set', set: { ranges: [], properties: [read.property], negated: false } }
  }
}

function readGroup(cursor: PatternCursor): PatternTree {
  cursor.at++
  if (++cursor.depth > MAX_PATTERN_DEPTH) {
    throw new PatternRejected(`has groups more than ${MAX_PATTERN_DEPTH} deep`)
  }
  if (cursor.text[cursor.at] === '?') readGroupKind(cursor)
  const inside = readAlternation(cursor)
  if (cursor.text[cursor.at] !== ')') throw new PatternRejected('has a "(" without a ")"')
  cursor.at++
  cursor.depth--
  return inside
}

/** Skips `?:` or `?<name>` at the beginning of a group. Rejects all other kinds of groups with an error that describes them. */
function readGroupKind(cursor: PatternCursor): void {
  const rest = cursor.text.slice(cursor.at, cursor.at + 80)
  if (rest.startsWith('?:')) {
    cursor.at += 2
    return
  }
  if (/^\?<?[=!]/.test(rest)) {
    throw new PatternRejected(
      'has a lookahead or lookbehind ("(?=", "(?!", "(?<=", "(?<!"), which is not supported',
    )
  }
  const name = /^\?<[A-Za-z_$][\w$]*>/.exec(rest)
  if (name === null) {
    throw new PatternRejected('has a group that is not supported; use "(…)", "(?:…)" or "(?<name>…)"')
  }
  cursor.at += name[0].length
}

function readRepeat(cursor: PatternCursor, part: PatternTree, isGroup: boolean): PatternTree {
  const bounds = readBounds(cursor)
  if (bounds === null) return part
  if (part.kind === 'assertion' && !isGroup)
    throw new PatternRejected('repeats "^", "$", "\\b" or "\\B", which match no characters')
  if (cursor.text[cursor.at] === '?') cursor.at++
  else if (cursor.text[cursor.at] === '+')
    throw new PatternRejected('has a possessive "+" after a repetition')
  if (readBounds(cursor) !== null)
    throw new PatternRejected('repeats a repetition; put the inner one in "(?:…)"')
  return { kind: 'repeat', part, min: bounds[0], max: bounds[1] }
}

function readBounds(cursor: PatternCursor): [number, number] | null {
  const char = cursor.text[cursor.at]
  if (char === '*' || char === '+' || char === '?') {
    cursor.at++
    return [char === '+' ? 1 : 0, char === '?' ? 1 : Number.POSITIVE_INFINITY]
  }
  if (char !== '{') return null
  const counted = /^\{(\d*)(,?)(\d*)\}/.exec(cursor.text.slice(cursor.at, cursor.at + 40))
  // As in browsers, a brace that does not begin a count matches itself.
  if (counted === null || counted[0] === '{}' || counted[0] === '{,}') return null
  if (counted[1] === '')
    throw new PatternRejected(`has "${counted[0]}"; write the lower bound too, as in {0,3}`)
  cursor.at += counted[0].length
  const min = Number(counted[1])
  const max = counted[2] === '' ? min : counted[3] === '' ? Number.POSITIVE_INFINITY : Number(counted[3])
  if (min > max) throw new PatternRejected(`has "${counted[0]}", whose bounds are out of order`)
  return [min, max]
}

function readClass(cursor: PatternCursor): CharSet {
  cursor.at++
  const negated = cursor.text[cursor.at] === '^'
  if (negated) cursor.at++
  const ranges: number[] = []
  const properties = new Map<string, UnicodeProperty>()
  if (cursor.text[cursor.at] === ']')
    throw new PatternRejected('has an empty class; write "\\]" for the bracket itself')
  while (cursor.text[cursor.at] !== ']') {
    const first = readMember(cursor)
    const isRange =
      first.kind === 'char' && cursor.text[cursor.at] === '-' && cursor.text[cursor.at + 1] !== ']'
    if (first.kind === 'char' && isRange) {
      cursor.at++
      const last = readMember(cursor)
      if (last.kind !== 'char')
        throw new PatternRejected('has a class whose range ends in a class, as in [a-\\d]')
      if (last.codePoint < first.codePoint)
        throw new PatternRejected('has a class whose range is out of order')
      ranges.push(first.codePoint, last.codePoint)
    } else if (first.kind === 'char') ranges.push(first.codePoint, first.codePoint)
    else if (first.kind === 'ranges') for (const bound of first.ranges) ranges.push(bound)
    else if (first.kind === 'property') {
      properties.set(`${first.property.negated}${first.property.name}`, first.property)
    }
  }
  cursor.at++
  const all = mergeRanges(ranges)
  if (properties.size === 0) return charSet(negated ? complement(all) : all)
  return { ranges: all, properties: [...properties.values()], negated }
}

function readMember(cursor: PatternCursor): Escape {
  const codePoint = cursor.text.codePointAt(cursor.at)
  if (codePoint === undefined) throw new PatternRejected('has a "[" without a "]"')
  if (codePoint === 0x5c) {
    const read = readEscape(cursor)
    if (read.kind !== 'assertion') return read
    // In a class, `\b` is the backspace character, and `\B` has no meaning.
    if (read.assertion === 'word-boundary') return { kind: 'char', codePoint: 8 }
    throw new PatternRejected('has "\\B" inside a class')
  }
  if (cursor.text.startsWith('[:', cursor.at))
    throw new PatternRejected('has a class such as [:alpha:]; list its characters instead')
  cursor.at += codePoint > 0xffff ? 2 : 1
  return { kind: 'char', codePoint }
}

type Escape =
  | { readonly kind: 'char'; readonly codePoint: number }
  | { readonly kind: 'ranges'; readonly ranges: readonly number[] }
  | { readonly kind: 'property'; readonly property: UnicodeProperty }
  | { readonly kind: 'assertion'; readonly assertion: Assertion }

const SIMPLE: ReadonlyMap<string, Escape> = new Map<string, Escape>([
  ['t', { kind: 'char', codePoint: 0x09 }],
  ['n', { kind: 'char', codePoint: 0x0a }],
  ['v', { kind: 'char', codePoint: 0x0b }],
  ['f', { kind: 'char', codePoint: 0x0c }],
  ['r', { kind: 'char', codePoint: 0x0d }],
  ['d', { kind: 'ranges', ranges: DIGITS }],
  ['D', { kind: 'ranges', ranges: complement(DIGITS) }],
  ['w', { kind: 'ranges', ranges: WORD_CHARACTERS }],
  ['W', { kind: 'ranges', ranges: complement(WORD_CHARACTERS) }],
  ['s', { kind: 'ranges', ranges: WHITE_SPACE }],
  ['S', { kind: 'ranges', ranges: complement(WHITE_SPACE) }],
  ['b', { kind: 'assertion', assertion: 'word-boundary' }],
  ['B', { kind: 'assertion', assertion: 'no-word-boundary' }],
])

/** `cursor.at` must be at the backslash, and is after the escape then. Throws `PatternRejected`. */
function readEscape(cursor: PatternCursor): Escape {
  const rest = cursor.text.slice(cursor.at + 1, cursor.at + 40)
  const codePoint = rest.codePointAt(0)
  if (codePoint === undefined) throw new PatternRejected('ends in a lone backslash')
  const char = String.fromCodePoint(codePoint)
  const simple = SIMPLE.get(char)
  if (simple !== undefined) {
    cursor.at += 2
    return simple
  }
  if (char === 'p' || char === 'P') return readProperty(cursor, rest)
  const coded = readCoded(rest)
  if (coded !== null) {
    cursor.at += 1 + coded.length
    return { kind: 'char', codePoint: coded.codePoint }
  }
  if (/[0-9k]/.test(char)) {
    throw new PatternRejected(`refers back to a group ("\\${char}"), which is not supported`)
  }
  if (/[AZz]/.test(char)) throw new PatternRejected(`has "\\${char}"; write "^" or "$"`)
  if (/[A-Za-z]/.test(char)) throw new PatternRejected(`has the escape "\\${char}", which is not supported`)
  cursor.at += 1 + char.length
  return { kind: 'char', codePoint }
}

/**
 * Reads `\0`, `\x41`, `\u0041`, `\u{1F600}`, a pair of surrogates, or `\cA`. Returns the code point and the length of the text
 * without the backslash, or null for anything else.
 */
function readCoded(rest: string): { codePoint: number; length: number } | null {
  const pair = /^u([dD][89abAB][\da-fA-F]{2})\\u([dD][c-fC-F][\da-fA-F]{2})/.exec(rest)
  if (pair !== null) {
    const high = Number.parseInt(pair[1] ?? '', 16) - 0xd800
    const low = Number.parseInt(pair[2] ?? '', 16) - 0xdc00
    return { codePoint: 0x10000 + high * 0x400 + low, length: pair[0].length }
  }
  const hex = /^(?:x([\da-fA-F]{2})|u([\da-fA-F]{4})|u\{([\da-fA-F]{1,8})\})/.exec(rest)
  if (hex !== null) {
    const codePoint = Number.parseInt(hex[1] ?? hex[2] ?? hex[3] ?? '', 16)
    if (codePoint > 0x10ffff) throw new PatternRejected(`has "\\${hex[0]}", which is not a character`)
    return { codePoint, length: hex[0].length }
  }
  const control = /^c([A-Za-z])/.exec(rest)
  if (control !== null) return { codePoint: (control[1] ?? '').charCodeAt(0) % 32, length: 2 }
  return /^0(?!\d)/.test(rest) ? { codePoint: 0, length: 1 } : null
}

function readProperty(cursor: PatternCursor, rest: string): Escape {
  const named = /^[pP]\{([A-Za-z_=]{1,30})\}/.exec(rest)
  const name = named?.[1]?.replace(/^(?:General_Category|gc)=/, '').replace(/^sc=/, 'Script=')
  if (named === null || name === undefined || !PROPERTY_NAMES.includes(name)) {
    throw new PatternRejected(`has an unknown "\\p{…}"; supported are ${PROPERTY_NAMES.join(', ')}`)
  }
  cursor.at += 1 + named[0].length
  return { kind: 'property', property: { name, negated: rest[0] === 'P' } }
}
