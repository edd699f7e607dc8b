/** What a string or a number breaks of the rules that the schema has for it: the first rule broken, or null. */
import type { NumberRules, StringRules } from './answer-schema.ts'
import { matchesPattern, programOf } from './patterns/match-pattern.ts'
import { clip } from './read-context.ts'
import type { Steps } from './step-budget.ts'
import { meetsFormat } from './string-formats.ts'

/** Characters looked at by native code per step of the budget. */
const CHARACTERS_PER_STEP = 16

/** Lengths count code points, as JSON Schema says. Throws `StepsSpent`. */
export function stringFault(rules: StringRules, text: string, steps: Steps): string | null {
  const { minLength, maxLength, pattern, format } = rules
  // A text has at most as many code points as UTF-16 units, and at least half as many.
  if (text.length < 2 * minLength || text.length > maxLength) {
    const length = lengthOf(text, steps)
    if (length < minLength) return `must have at least ${minLength} characters`
    if (length > maxLength) return `must have at most ${maxLength} characters`
  }
  if (format !== null) {
    steps.spend(1 + text.length / CHARACTERS_PER_STEP)
    if (!meetsFormat(format, text)) return `must be a ${format}`
  }
  if (pattern !== null) {
    if (pattern.program === null) {
      pattern.program = programOf(pattern.tree)
      steps.spend(pattern.program.code.length / 2)
    }
    if (!matchesPattern(pattern.program, text, steps)) return `must match the pattern ${clip(pattern.text)}`
  }
  return null
}

/** The number of code points. */
export function lengthOf(text: string, steps: Steps): number {
  steps.spend(1 + text.length / CHARACTERS_PER_STEP)
  let pairs = 0
  for (let at = 0; at < text.length - 1; at++) {
    const isHigh = (text.charCodeAt(at) & 0xfc00) === 0xd800
    if (isHigh && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00) {
      pairs++
      at++
    }
  }
  return text.length - pairs
}

export function numberFault(rules: NumberRules, value: number, steps: Steps): string | null {
  if (value < rules.minimum) return `must be at least ${rules.minimum}`
  if (value > rules.maximum) return `must be at most ${rules.maximum}`
  const { exclusiveMinimum, exclusiveMaximum, multipleOf } = rules
  if (exclusiveMinimum !== null && value <= exclusiveMinimum)
    return `must be greater than ${exclusiveMinimum}`
  if (exclusiveMaximum !== null && value >= exclusiveMaximum) return `must be less than ${exclusiveMaximum}`
  if (multipleOf === null || isMultiple(value, multipleOf, steps)) return null
  return `must be a multiple of ${multipleOf}`
}

/** Exact in decimals, as people read them: 0.3 is a multiple of 0.1, though not in binary. */
export function isMultiple(value: number, unit: number, steps: Steps): boolean {
  if (Number.isSafeInteger(value) && Number.isSafeInteger(unit)) return value % unit === 0
  if (!Number.isFinite(value)) return false
  // Two numbers of some 600 digits at the very worst.
  steps.spend(50)
  const [digits, exponent] = decimal(value)
  const [unitDigits, unitExponent] = decimal(unit)
  const lowest = Math.min(exponent, unitExponent)
  const scaled = digits * 10n ** BigInt(exponent - lowest)
  return scaled % (unitDigits * 10n ** BigInt(unitExponent - lowest)) === 0n
}

/** The number as an integer and a power of ten. */
function decimal(value: number): [bigint, number] {
  const [mantissa = '0', exponent = '0'] = value.toExponential().split('e')
  const [whole = '0', fraction = ''] = mantissa.split('.')
  return [BigInt(whole + fraction), Number(exponent) - fraction.length]
}
