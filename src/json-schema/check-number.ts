/** Checks a number against a schema's bounds and `multipleOf`. */
import type { NumberRules } from './answer-schema.ts'
import type { StepBudget } from './step-budget.ts'

/** The requirement of the first rule that the number violates, or null. Throws `StepBudgetExceeded`. */
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

/** Exact in decimals, as people read them: 0.3 is a multiple of 0.1, though not in binary. */
function isMultiple(value: number, unit: number, budget: StepBudget): boolean {
  if (Number.isSafeInteger(value) && Number.isSafeInteger(unit)) return value % unit === 0
  if (!Number.isFinite(value)) return false
  budget.spend(6)
  const places = Math.max(decimalPlaces(value), decimalPlaces(unit))
  const scaledValue = Math.round(value * 10 ** places)
  const scaledUnit = Math.round(unit * 10 ** places)
  if (Math.abs(scaledValue) < EXACT && scaledUnit < EXACT) return scaledValue % scaledUnit === 0
  // Two numbers of about 600 digits in the worst case.
  budget.spend(50)
  const [digits, exponent] = decimal(value)
  const [unitDigits, unitExponent] = decimal(unit)
  const lowest = Math.min(exponent, unitExponent)
  const scaled = digits * 10n ** BigInt(exponent - lowest)
  return scaled % (unitDigits * 10n ** BigInt(unitExponent - lowest)) === 0n
}

/** Below this, a number times its power of ten rounds to the integer that its digits spell, because there are at most 15. */
const EXACT = 1e15

/** Digits behind the decimal point; infinite for a number that is written with an exponent. */
function decimalPlaces(value: number): number {
  const text = String(value)
  const point = text.indexOf('.')
  if (text.includes('e')) return Number.POSITIVE_INFINITY
  return point < 0 ? 0 : text.length - point - 1
}

/** The number as an integer and a power of ten. */
function decimal(value: number): [bigint, number] {
  const [mantissa = '0', exponent = '0'] = value.toExponential().split('e')
  const [whole = '0', fraction = ''] = mantissa.split('.')
  return [BigInt(whole + fraction), Number(exponent) - fraction.length]
}
