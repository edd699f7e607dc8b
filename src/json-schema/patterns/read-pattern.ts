/**
 * Reads a `pattern` (ECMA-262, as JSON Schema says) into a tree, refusing what no linear-time matcher can take
 * (back-references, look-around) and what dialects disagree about.
 */
import type { CharSet, UnicodeProperty } from './char-set.ts'
import { complement, joined, LINE_ENDS, setOf, single } from './char-set.ts'
import { MAX_PATTERN_DEPTH, MAX_PATTERN_LENGTH, MAX_PATTERN_SIZE } from '../limits.ts'
import { PatternRefused, type PatternText, type PatternTree } from './pattern-tree.ts'
import { type Escape, readEscape } from './read-escape.ts'

export type ReadPattern =
  | { readonly ok: true; readonly tree: PatternTree; readonly size: number }
  | { readonly ok: false; readonly rule: string }

/** Never throws. `size` is the number of instructions the pattern stands for, counted repetitions written out. */
export function readPattern(text: string): ReadPattern {
  if (text.length > MAX_PATTERN_LENGTH) {
    return { ok: false, rule: `must have at most ${MAX_PATTERN_LENGTH} characters` }
  }
  const from: PatternText = { text, at: 0, depth: 0 }
  try {
    const tree = readChoice(from)
    if (from.at < text.length) return { ok: false, rule: 'has a ")" without its "("' }
    const size = sizeOf(tree)
    if (size > MAX_PATTERN_SIZE) {
      return {
        ok: false,
        rule: `is too large: its repetitions written out have more than ${MAX_PATTERN_SIZE} parts`,
      }
    }
    return { ok: true, tree, size }
  } catch (error) {
    if (error instanceof PatternRefused) return { ok: false, rule: error.message }
    throw error
  }
}

/** An empty sequence counts 1 too: else `(){1000000000}` would be small and take for ever to write out. */
function sizeOf(tree: PatternTree): number {
  switch (tree.kind) {
    case 'set':
    case 'edge':
      return 1
    case 'sequence':
      return tree.parts.reduce((sum, part) => sum + sizeOf(part), 1)
    case 'choice':
      return tree.options.reduce((sum, option) => sum + sizeOf(option) + 2, 0)
    case 'repeat': {
      const size = sizeOf(tree.part)
      const optional = tree.most === Number.POSITIVE_INFINITY ? 1 : tree.most - tree.least
      return tree.least * size + optional * (size + 2)
    }
  }
}

function readChoice(from: PatternText): PatternTree {
  const options = [readSequence(from)]
  while (from.text[from.at] === '|') {
    from.at++
    options.push(readSequence(from))
  }
  const [only] = options
  return only !== undefined && options.length === 1 ? only : { kind: 'choice', options }
}

function readSequence(from: PatternText): PatternTree {
  const parts: PatternTree[] = []
  while (from.at < from.text.length) {
    const next = from.text[from.at]
    if (next === '|' || next === ')') break
    parts.push(readRepeats(from, readAtom(from), next === '('))
  }
  const [only] = parts
  return only !== undefined && parts.length === 1 ? only : { kind: 'sequence', parts }
}

function readAtom(from: PatternText): PatternTree {
  const codePoint = from.text.codePointAt(from.at) ?? 0
  const char = String.fromCodePoint(codePoint)
  switch (char) {
    case '(':
      return readGroup(from)
    case '[':
      return { kind: 'set', set: readClass(from) }
    case '\\':
      return fromEscape(readEscape(from))
    case '*':
    case '+':
    case '?':
      throw new PatternRefused(`has a "${char}" with nothing before it that could be repeated`)
  }
  from.at += char.length
  if (char === '.') return { kind: 'set', set: setOf(LINE_ENDS, true) }
  if (char === '^') return { kind: 'edge', edge: 'start' }
  if (char === '$') return { kind: 'edge', edge: 'end' }
  return { kind: 'set', set: single(codePoint) }
}

function fromEscape(read: Escape): PatternTree {
  switch (read.kind) {
    case 'edge':
      return read
    case 'char':
      return { kind: 'set', set: single(read.codePoint) }
    case 'ranges':
      return { kind: 'set', set: setOf(read.ranges) }
    case 'property':
      return { kind: 'set', set: { ranges: [], properties: [read.property], negated: false } }
  }
}

function readGroup(from: PatternText): PatternTree {
  from.at++
  if (++from.depth > MAX_PATTERN_DEPTH) {
    throw new PatternRefused(`has groups more than ${MAX_PATTERN_DEPTH} deep`)
  }
  if (from.text[from.at] === '?') readGroupKind(from)
  const inside = readChoice(from)
  if (from.text[from.at] !== ')') throw new PatternRefused('has a "(" without its ")"')
  from.at++
  from.depth--
  return inside
}

/** Steps over `?:` and `?<name>`; every other kind of group is refused by name. */
function readGroupKind(from: PatternText): void {
  const rest = from.text.slice(from.at, from.at + 80)
  if (rest.startsWith('?:')) {
    from.at += 2
    return
  }
  if (/^\?<?[=!]/.test(rest)) {
    throw new PatternRefused('looks ahead or behind ("(?=", "(?!", "(?<=", "(?<!"), which is not supported')
  }
  const name = /^\?<[A-Za-z_$][\w$]*>/.exec(rest)
  if (name === null) {
    throw new PatternRefused('has a group that is not supported; use "(…)", "(?:…)" or "(?<name>…)"')
  }
  from.at += name[0].length
}

function readRepeats(from: PatternText, part: PatternTree, isGroup: boolean): PatternTree {
  const bounds = readBounds(from)
  if (bounds === null) return part
  if (part.kind === 'edge' && !isGroup)
    throw new PatternRefused('repeats "^", "$", "\\b" or "\\B", which match no text')
  if (from.text[from.at] === '?') from.at++
  else if (from.text[from.at] === '+') throw new PatternRefused('has a "+" after a repetition')
  if (readBounds(from) !== null)
    throw new PatternRefused('repeats a repetition; put the inner one in "(?:…)"')
  return { kind: 'repeat', part, least: bounds[0], most: bounds[1] }
}

function readBounds(from: PatternText): [number, number] | null {
  const char = from.text[from.at]
  if (char === '*' || char === '+' || char === '?') {
    from.at++
    return [char === '+' ? 1 : 0, char === '?' ? 1 : Number.POSITIVE_INFINITY]
  }
  if (char !== '{') return null
  const counted = /^\{(\d*)(,?)(\d*)\}/.exec(from.text.slice(from.at, from.at + 40))
  // As in browsers, a brace that opens no count stands for itself.
  if (counted === null || counted[0] === '{}' || counted[0] === '{,}') return null
  if (counted[1] === '')
    throw new PatternRefused(`has "${counted[0]}"; write the lower bound too, as in {0,3}`)
  from.at += counted[0].length
  const least = Number(counted[1])
  const most = counted[2] === '' ? least : counted[3] === '' ? Number.POSITIVE_INFINITY : Number(counted[3])
  if (least > most) throw new PatternRefused(`has "${counted[0]}", whose bounds are out of order`)
  return [least, most]
}

function readClass(from: PatternText): CharSet {
  from.at++
  const negated = from.text[from.at] === '^'
  if (negated) from.at++
  const ranges: number[] = []
  const properties = new Map<string, UnicodeProperty>()
  if (from.text[from.at] === ']')
    throw new PatternRefused('has an empty class; write "\\]" for the bracket itself')
  while (from.text[from.at] !== ']') {
    const first = readMember(from)
    const isRange = first.kind === 'char' && from.text[from.at] === '-' && from.text[from.at + 1] !== ']'
    if (first.kind === 'char' && isRange) {
      from.at++
      const last = readMember(from)
      if (last.kind !== 'char')
        throw new PatternRefused('has a class whose range ends in a class, as in [a-\\d]')
      if (last.codePoint < first.codePoint)
        throw new PatternRefused('has a class whose range is out of order')
      ranges.push(first.codePoint, last.codePoint)
    } else if (first.kind === 'char') ranges.push(first.codePoint, first.codePoint)
    else if (first.kind === 'ranges') for (const bound of first.ranges) ranges.push(bound)
    else if (first.kind === 'property') {
      properties.set(`${first.property.negated}${first.property.name}`, first.property)
    }
  }
  from.at++
  const all = joined(ranges)
  if (properties.size === 0) return setOf(negated ? complement(all) : all)
  return { ranges: all, properties: [...properties.values()], negated }
}

function readMember(from: PatternText): Escape {
  const codePoint = from.text.codePointAt(from.at)
  if (codePoint === undefined) throw new PatternRefused('has a "[" without its "]"')
  if (codePoint === 0x5c) {
    const read = readEscape(from)
    if (read.kind !== 'edge') return read
    // Inside a class `\b` is the backspace, and `\B` is nothing.
    if (read.edge === 'word') return { kind: 'char', codePoint: 8 }
    throw new PatternRefused('has "\\B" inside a class')
  }
  if (from.text.startsWith('[:', from.at))
    throw new PatternRefused('has a class like [:alpha:]; write it out')
  from.at += codePoint > 0xffff ? 2 : 1
  return { kind: 'char', codePoint }
}
