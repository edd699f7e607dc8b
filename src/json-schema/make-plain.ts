/** Makes strings and numbers that meet a schema's rules for them, by trying likely ones and checking each. */
import type { NumberRules, Pattern, StringRules } from './answer-schema.ts'
import { exampleOf } from './pattern-example.ts'
import { lengthOf, numberFault, stringFault } from './plain-faults.ts'
import type { Steps } from './steps.ts'
import type { FormatName } from './string-formats.ts'

/** Longer strings are not made. */
const MAX_MADE_LENGTH = 20_000

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

/** A text that says it is simulated wherever the rules leave room. null when none was found. */
export function makeString(rules: StringRules | null, name: string, steps: Steps): string | null {
  const said = `simulated ${Array.from(name.slice(0, 60)).slice(0, 30).join('')}`
  if (rules === null) return said
  if (rules.minLength > MAX_MADE_LENGTH) return null
  for (const text of stringCandidates(rules, said, steps)) {
    if (stringFault(rules, text, steps) === null) return text
  }
  return null
}

function* stringCandidates(rules: StringRules, said: string, steps: Steps): Generator<string> {
  if (rules.format !== null) yield* lengthened(FORMAT_EXAMPLES[rules.format], rules, steps)
  yield fitted(said, rules, steps)
  if (rules.pattern !== null) yield* patternCandidates(rules.pattern, rules, steps)
}

/** Formats with a free part can grow: an address before its host, a URI at its end. */
function* lengthened(example: string, rules: StringRules, steps: Steps): Generator<string> {
  yield example
  const missing = rules.minLength - example.length
  if (missing <= 0) return
  steps.spend(missing / 16)
  yield 'a'.repeat(missing) + example
  yield example + 'a'.repeat(missing)
  yield example.replace('Z', `.${'0'.repeat(Math.max(1, missing - 1))}Z`)
}

function* patternCandidates(pattern: Pattern, rules: StringRules, steps: Steps): Generator<string> {
  for (let variant = 0; variant < MAX_VARIANTS; variant++) {
    const shortest = exampleOf(pattern.tree, variant, 0, steps)
    if (shortest === null) continue
    yield shortest
    const missing = rules.minLength - lengthOf(shortest, steps)
    if (missing <= 0) continue
    const longer = exampleOf(pattern.tree, variant, missing, steps)
    if (longer !== null) yield longer
    steps.spend(missing / 16)
    yield shortest + 'a'.repeat(missing)
    yield 'a'.repeat(missing) + shortest
  }
}

/** Cut or repeated to a length within the rules. */
function fitted(text: string, { minLength, maxLength }: StringRules, steps: Steps): string {
  steps.spend(minLength / 16)
  const points = Array.from(text)
  if (points.length > maxLength) return points.slice(0, maxLength).join('')
  return (
    text + ' simulated'.repeat(Math.ceil(minLength / 10)).slice(0, Math.max(0, minLength - points.length))
  )
}

/** null when no number was found. */
export function makeNumber(rules: NumberRules | null, isInteger: boolean, steps: Steps): number | null {
  if (rules === null) return 1
  for (const value of numberCandidates(rules, isInteger)) {
    steps.spend(1)
    if (!Number.isFinite(value) || (isInteger && !Number.isInteger(value))) continue
    if (numberFault(rules, value, steps) === null) return value === 0 ? 0 : value
  }
  return null
}

function* numberCandidates(rules: NumberRules, isInteger: boolean): Generator<number> {
  const low = Math.max(rules.minimum, rules.exclusiveMinimum ?? Number.NEGATIVE_INFINITY)
  const high = Math.min(rules.maximum, rules.exclusiveMaximum ?? Number.POSITIVE_INFINITY)
  yield 1
  yield 0
  for (const edge of [low, high]) {
    yield* [edge, Math.floor(edge), Math.ceil(edge), Math.floor(edge) + 1, Math.ceil(edge) - 1]
  }
  yield (low + high) / 2
  yield low / 2 + high / 2
  // Steps that still change a large number, upwards from below and downwards from above.
  yield low + Math.abs(low) * 1e-9
  yield high - Math.abs(high) * 1e-9
  const unit = rules.multipleOf ?? (isInteger ? 1 : null)
  if (unit === null) return
  for (const edge of [low, high, 0]) {
    if (!Number.isFinite(edge)) continue
    const count = Math.floor(edge / unit)
    for (const more of [0, 1, -1, 2, 3, 4, 5, 10, 100, 1_000]) {
      // Rounded to the decimals that a person would write: 3 × 0.1 is 0.3.
      yield Number(((count + more) * unit).toPrecision(15))
      yield (count + more) * unit
    }
  }
}
