/**
 * Checks a value against `enum` and `const`, a number against its bounds, and a string against its length, format and pattern.
 */
import {
  type AllowedValues,
  allowsPrimitive,
  isObject,
  type NumberRules,
  type Pattern,
  type StringRules,
} from './answer-schema.ts'
import { addError, type Check, type Location } from './check-context.ts'
import { listValues, truncate } from './error-text.ts'
import { chargedKeys, type StepBudget } from './limits.ts'
import { compilePattern } from './patterns/compile-pattern.ts'
import { matchesPattern } from './patterns/match-pattern.ts'
import { formatSteps, meetsFormat } from './string-formats.ts'

export function checkAllowed(
  check: Check,
  allowed: readonly AllowedValues[],
  value: unknown,
  location: Location | null,
): boolean {
  let ok = true
  for (const list of allowed) {
    const { keyword, values, nested } = list
    check.budget.spend(1)
    const found =
      typeof value === 'object' && value !== null
        ? nested.some((one) => deepEqual(one, value, check.budget))
        : allowsPrimitive(list, value)
    if (!found) ok = addError(check, location, allowedRule(keyword, values))
  }
  return ok
}

function allowedRule(keyword: 'enum' | 'const', values: readonly unknown[]): string {
  if (values.length === 0) return 'is not allowed: the enum of the schema is empty'
  return keyword === 'const' ? `must be ${listValues(values)}` : `must be one of ${listValues(values)}`
}

/** The recursion is only as deep as the shallower value. Throws `StepBudgetExceeded`. */
function deepEqual(one: unknown, other: unknown, budget: StepBudget): boolean {
  budget.spend(1)
  if (one === other) return true
  if (Array.isArray(one)) {
    if (!Array.isArray(other) || one.length !== other.length) return false
    return one.every((item, index) => deepEqual(item, other[index], budget))
  }
  if (!isObject(one) || !isObject(other)) return false
  const keys = chargedKeys(one, budget)
  if (keys.length !== chargedKeys(other, budget).length) return false
  return keys.every((key) => Object.hasOwn(other, key) && deepEqual(one[key], other[key], budget))
}

/** Returns the first rule that the number violates, or null if there is none. Throws `StepBudgetExceeded`. */
export function numberError(rules: NumberRules, value: number, budget: StepBudget): string | null {
  if (value < rules.minimum) return `must be at least ${rules.minimum}`
  if (value > rules.maximum) return `must be at most ${rules.maximum}`
  const { exclusiveMinimum, exclusiveMaximum, multipleOf } = rules
  if (exclusiveMinimum !== null && value <= exclusiveMinimum)
    return `must be greater than ${exclusiveMinimum}`
  if (exclusiveMaximum !== null && value >= exclusiveMaximum) return `must be less than ${exclusiveMaximum}`
  if (multipleOf === null || isMultiple(value, multipleOf, budget)) return null
  return `must be a multiple of ${multipleOf}`
}

/** Calculates with decimal numbers, as a person would: 0.3 is a multiple of 0.1, although not in binary. */
function isMultiple(value: number, unit: number, budget: StepBudget): boolean {
  if (Number.isSafeInteger(value) && Number.isSafeInteger(unit)) return value % unit === 0
  if (!Number.isFinite(value)) return false
  budget.spend(6)
  const places = Math.max(decimalPlaces(value), decimalPlaces(unit))
  const scaledValue = Math.round(value * 10 ** places)
  const scaledUnit = Math.round(unit * 10 ** places)
  if (Math.abs(scaledValue) < EXACT && scaledUnit < EXACT) return scaledValue % scaledUnit === 0
  // In the worst case, the numbers have about 600 digits.
  budget.spend(50)
  const [digits, exponent] = decimal(value)
  const [unitDigits, unitExponent] = decimal(unit)
  const lowest = Math.min(exponent, unitExponent)
  const scaled = digits * 10n ** BigInt(exponent - lowest)
  return scaled % (unitDigits * 10n ** BigInt(unitExponent - lowest)) === 0n
}

/** A scaled number below this has at most 15 digits, so a double holds it exactly after rounding. */
const EXACT = 1e15

/** Returns infinity for a number that is written with an exponent, so that the caller calculates with big integers. */
function decimalPlaces(value: number): number {
  const text = String(value)
  const point = text.indexOf('.')
  if (text.includes('e')) return Number.POSITIVE_INFINITY
  return point < 0 ? 0 : text.length - point - 1
}

/** Returns an integer, and the exponent of the power of ten by which to multiply it. */
function decimal(value: number): [bigint, number] {
  const [mantissa = '0', exponent = '0'] = value.toExponential().split('e')
  const [whole = '0', fraction = ''] = mantissa.split('.')
  return [BigInt(whole + fraction), Number(exponent) - fraction.length]
}

/** Native code examines this many characters in the time of one step. */
const CHARACTERS_PER_STEP = 16

const COMPILING_STEPS = 2

/** Returns the first rule that the text violates, or null if there is none. Throws `StepBudgetExceeded`. */
export function stringError(rules: StringRules, text: string, budget: StepBudget): string | null {
  const { minLength, maxLength, pattern, format } = rules
  // A text has at most as many code points as UTF-16 units, and at least half as many. In most cases, the length need not be
  // counted.
  if (text.length < 2 * minLength || text.length > maxLength) {
    const length = lengthOf(text, budget)
    if (length < minLength) return `must have at least ${minLength} characters`
    if (length > maxLength) return `must have at most ${maxLength} characters`
  }
  if (format !== null) {
    budget.spend(formatSteps(format, text))
    if (!meetsFormat(format, text)) return `must be a ${format}`
  }
  if (pattern !== null && !matches(pattern, text, budget)) {
    return `must match the pattern ${truncate(pattern.text)}`
  }
  return null
}

/** The pattern may match anywhere in the text. Throws `StepBudgetExceeded`. */
export function matches(pattern: Pattern, text: string, budget: StepBudget): boolean {
  if (pattern.program === null) {
    // The steps are taken from the budget before compiling. If the pattern is too large for the event loop, the check ends
    // here, and a thread repeats it.
    budget.spend(COMPILING_STEPS * pattern.size)
    pattern.program = compilePattern(pattern.tree)
  }
  return matchesPattern(pattern.program, text, budget)
}

/** In JSON Schema, the length is the number of code points. */
function lengthOf(text: string, budget: StepBudget): number {
  budget.spend(1 + text.length / CHARACTERS_PER_STEP)
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
