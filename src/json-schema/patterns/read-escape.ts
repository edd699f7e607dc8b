/** Reads what follows a backslash in a `pattern`, with the meaning that ECMA-262 gives it. */
import type { UnicodeProperty } from './char-set.ts'
import { complement, DIGITS, PROPERTY_NAMES, WHITE_SPACE, WORD_CHARACTERS } from './char-set.ts'
import { type Assertion, type PatternCursor, PatternRejected } from './pattern-tree.ts'

export type Escape =
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

/** `cursor.at` is at the backslash, and afterwards behind the escape. Throws `PatternRejected`. */
export function readEscape(cursor: PatternCursor): Escape {
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

/** `\0`, `\x41`, `\u0041`, `\u{1F600}`, a pair of surrogates, `\cA`: the code point and the length of the text. */
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
