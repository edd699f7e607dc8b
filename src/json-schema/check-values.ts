/** Checks a value against the values of `enum` and `const`. */
import { type AllowedValues, allowsPrimitive, isObject } from './answer-schema.ts'
import { addError, type Check, type Location } from './check-context.ts'
import { listValues } from './error-text.ts'
import { chargedKeys, type StepBudget } from './step-budget.ts'

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

/** Recurses only as deep as the shallower of the two. Throws `StepBudgetExceeded`. */
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
