/** Proposes strings for an example: of a format, of a pattern, of a length. The checker decides which of them fits. */
import type { StringRules } from './answer-schema.ts'
import { type CharSet, contains, costOf } from './patterns/char-set.ts'
import type { PatternTree } from './patterns/pattern-tree.ts'
import type { StepBudget } from './step-budget.ts'
import type { FormatName } from './string-formats.ts'

/** Longer strings are not generated. */
const MAX_LENGTH = 20_000

/** Alternatives of a pattern that are tried. */
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

/** Texts that state that they are simulated, if the rules leave room for it. Throws `StepBudgetExceeded`. */
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

/** The text or, if it is too short, the text extended at one of its ends, which many formats and patterns allow. */
function* lengthened(text: string, minLength: number): Generator<string> {
  yield text
  const missing = minLength - text.length
  if (missing <= 0) return
  yield 'a'.repeat(missing) + text
  yield text + 'a'.repeat(missing)
}

interface Writing {
  /** Which option each choice takes. */
  readonly variant: number
  /** Extra characters that repetitions should add; the first one that can grow takes them all. */
  missing: number
  readonly budget: StepBudget
}

/** A text that the pattern should match, or null. Assertions such as `\b` are left to the checker. */
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

/** Tried first, in this order, if several characters match. */
const PREFERRED = Array.from('aA1 -_.,@/:+#é中', (char) => char.codePointAt(0) ?? 0)

/** All scripts that a pattern can name have a character below this one. */
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
