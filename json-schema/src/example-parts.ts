/** Proposes objects, arrays and strings for an example. The checker decides which of them are valid. */
import type { ArrayRules, ObjectRules, SchemaNode, StringRules } from './answer-schema.ts'
import { accepts } from './check-answer.ts'
import { matches } from './check-values.ts'
import type { StepBudget } from './limits.ts'
import { type CharSet, contains, costOf } from './patterns/char-set.ts'
import type { PatternTree } from './patterns/read-pattern.ts'
import type { FormatName } from './string-formats.ts'

/** Null means that no example was found. The value is inside an object, because the value itself may be null. */
export type Example = { readonly value: unknown } | null

export interface Making {
  readonly budget: StepBudget
  readonly withOptional: boolean
  /** A subschema that occurs inside itself is left out where possible. */
  readonly open: Set<SchemaNode>
  /** `name` is the name of the subschema's property, which texts contain. */
  readonly make: (node: SchemaNode, making: Making, name: string) => Example
}

/** An array gets at most MAX_ITEMS items. An object gets at most MAX_FILLED keys only to reach its minimum size. */
const MAX_ITEMS = 2_000
const MAX_FILLED = 100

export function* exampleObjects(rules: ObjectRules | null, making: Making): Generator<unknown> {
  if (rules === null) {
    yield {}
    return
  }
  const { properties, required } = rules
  making.budget.spend(required.length)
  const needed = new Set(required)
  for (const { name, names } of rules.dependentRequired) {
    if (needed.has(name) || (making.withOptional && properties.has(name)))
      for (const one of names) needed.add(one)
  }
  const entries: [string, unknown][] = []
  for (const name of making.withOptional ? new Set([...properties.keys(), ...needed]) : needed) {
    const example = exampleProperty(rules, making, name)
    if (example !== null) entries.push([name, example.value])
    else if (needed.has(name)) return
  }
  const isMap =
    properties.size === 0 && (rules.additional ?? rules.propertyNames ?? rules.patternProperties[0])
  const wished = isMap && making.withOptional ? 1 : 0
  if (entries.length < Math.max(rules.minProperties, wished)) fill(rules, making, entries)
  yield Object.fromEntries(entries.slice(0, Math.max(needed.size, rules.maxProperties)))
  yield Object.fromEntries(entries.filter(([name]) => needed.has(name)))
}

function exampleProperty(rules: ObjectRules, making: Making, name: string): Example {
  const { properties, patternProperties, additional } = rules
  const matching = patternProperties.find(({ pattern }) => matches(pattern, name, making.budget))
  const node = properties.get(name) ?? matching?.node ?? additional
  return node === null ? { value: `simulated ${name}` } : making.make(node, making, name)
}

function fill(rules: ObjectRules, making: Making, entries: [string, unknown][]): void {
  const present = new Set(entries.map(([name]) => name))
  const wanted = Math.min(MAX_FILLED, Math.max(1, rules.minProperties))
  for (const name of fillingNames(rules, making)) {
    if (present.size >= wanted) return
    making.budget.spend(2)
    if (present.has(name)) continue
    if (rules.propertyNames !== null && !accepts(rules.propertyNames, name, making.budget)) continue
    const example = exampleProperty(rules, making, name)
    if (example === null) continue
    present.add(name)
    entries.push([name, example.value])
  }
}

function* fillingNames(rules: ObjectRules, making: Making): Generator<string> {
  for (const { values } of rules.propertyNames?.allowed ?? []) {
    for (const value of values) if (typeof value === 'string') yield value
  }
  const named = rules.propertyNames === null ? null : making.make(rules.propertyNames, making, 'name')
  if (typeof named?.value === 'string') yield named.value
  for (const { pattern } of rules.patternProperties) {
    yield* exampleTexts({ minLength: 0, maxLength: 200, pattern, format: null }, 'name', making.budget)
  }
  for (let at = 1; at <= 2 * MAX_FILLED; at++) yield `name${at}`
}

export function* exampleArrays(rules: ArrayRules | null, making: Making, name: string): Generator<unknown> {
  if (rules === null) {
    yield []
    return
  }
  const { prefixItems, minItems, maxItems, contains } = rules
  const contained = contains === null ? 0 : rules.minContains
  const wished = making.withOptional ? Math.max(1, prefixItems.length) : 0
  const count = Math.max(minItems, Math.min(maxItems, Math.max(wished, contained)))
  if (count > MAX_ITEMS || contained > MAX_ITEMS) return
  making.budget.spend(count)
  const items: unknown[] = []
  for (const node of prefixItems.slice(0, count)) {
    const example = making.make(node, making, name)
    if (example === null) return
    items.push(example.value)
  }
  const wanted = contains === null ? null : making.make(contains, making, name)
  const rest = rules.items === null ? { value: `simulated ${name}` } : making.make(rules.items, making, name)
  if (rest !== null || items.length === count) {
    const missing = count - items.length
    const plain: unknown[] = Array(missing).fill(rest?.value)
    yield [...items, ...plain]
    if (wanted !== null) yield [...items, ...plain.fill(wanted.value, 0, contained)]
    if (rules.uniqueItems) yield [...items, ...differentItems(rules.items, missing, making, name)]
  }
  yield []
}

/** The items are of a few kinds that are easy to generate. There may be fewer than `count`. */
function differentItems(node: SchemaNode | null, count: number, making: Making, name: string): unknown[] {
  const found = new Map<string, unknown>()
  const first = node === null ? null : making.make(node, making, name)
  const listed = node?.allowed[0]?.values.slice(0, MAX_FILLED) ?? []
  const counted = Array.from({ length: Math.min(count + 1, MAX_FILLED) }, (_, at) => at)
  const candidates = [
    first?.value,
    ...listed,
    ...counted,
    ...counted.map((at) => `simulated ${at}`),
    true,
    null,
  ]
  for (const value of candidates) {
    if (found.size >= count) break
    making.budget.spend(2)
    if (value !== undefined && (node === null || accepts(node, value, making.budget))) {
      found.set(JSON.stringify(value), value)
    }
  }
  return [...found.values()]
}

const MAX_LENGTH = 20_000

const MAX_VARIANTS = 8

const FORMAT_EXAMPLES: Readonly<Record<FormatName, string>> = {
  'date-time': '2026-01-31T12:00:00Z',
  date: '2026-01-31',
  time: '12:00:00Z',
  duration: 'PT1H',
  email: 'simulated@example.com',
  hostname: 'simulated.example.com',
  ipv4: '192.0.2.1',
  ipv6: '2001:db8::1',
  uuid: '01890a5d-ac96-774b-bcce-b302099a8057',
  uri: 'https://example.com/simulated',
}

/** A text states that it is simulated if the rules allow that. Throws `StepBudgetExceeded`. */
export function* exampleTexts(
  rules: StringRules | null,
  name: string,
  budget: StepBudget,
): Generator<string> {
  const words = `simulated ${Array.from(name.slice(0, 60)).slice(0, 30).join('')}`
  if (rules === null) yield words
  if (rules === null || rules.minLength > MAX_LENGTH) return
  const { minLength, maxLength, format, pattern } = rules
  budget.spend(minLength / 16)
  if (format !== null) yield* lengthened(FORMAT_EXAMPLES[format], minLength)
  yield Array.from(words.padEnd(minLength, ' simulated')).slice(0, maxLength).join('')
  if (pattern === null) return
  for (let variant = 0; variant < MAX_VARIANTS; variant++) {
    for (const missing of new Set([0, minLength])) {
      const text = patternText(pattern.tree, { variant, missing, budget })
      if (text !== null) yield* lengthened(text, minLength)
    }
  }
}

/** Many rules allow longer text at one end, so short text is also extended at its beginning, and at its end. */
function* lengthened(text: string, minLength: number): Generator<string> {
  yield text
  const missing = minLength - text.length
  if (missing <= 0) return
  yield 'a'.repeat(missing) + text
  yield text + 'a'.repeat(missing)
}

interface Writing {
  readonly variant: number
  /** Repetitions should add this many characters. The first repetition that can add them adds all. */
  missing: number
  readonly budget: StepBudget
}

/** Returns null if no text is found. Assertions such as `\b` are ignored, because the checker tests the text anyway. */
function patternText(tree: PatternTree, writing: Writing): string | null {
  writing.budget.spend(1)
  switch (tree.kind) {
    case 'assertion':
      return ''
    case 'set':
      return memberOf(tree.set, writing.budget)
    case 'alternation': {
      const option = tree.options[writing.variant % tree.options.length]
      return option === undefined ? null : patternText(option, writing)
    }
    case 'sequence': {
      const parts = tree.parts.map((part) => patternText(part, writing))
      return parts.includes(null) ? null : parts.join('')
    }
    case 'repeat': {
      let text = ''
      for (let count = 0; count < tree.max; count++) {
        const isExtra = count >= tree.min
        if (isExtra && writing.missing <= 0) break
        const part = patternText(tree.part, writing)
        if (part === null) return null
        if (isExtra && part === '') break
        if (isExtra) writing.missing -= part.length
        text += part
      }
      return text
    }
  }
}

/** Examples use the first of these characters that matches. */
const PREFERRED = Array.from('aA1 -_.,@/:+#é中', (char) => char.codePointAt(0) ?? 0)

/** The search for a character ends here. All scripts that a pattern can name have a character below this code point. */
const LAST_SEARCHED = 0x3200

function memberOf(set: CharSet, budget: StepBudget): string | null {
  budget.spend(2 + set.properties.length)
  const preferred = PREFERRED.find((codePoint) => contains(set, codePoint))
  if (preferred !== undefined) return String.fromCodePoint(preferred)
  if (!set.negated && set.ranges[0] !== undefined) return String.fromCodePoint(set.ranges[0])
  for (let codePoint = 0; codePoint < LAST_SEARCHED; codePoint++) {
    budget.spend(costOf(set) / 6)
    if (contains(set, codePoint)) return String.fromCodePoint(codePoint)
  }
  return null
}
