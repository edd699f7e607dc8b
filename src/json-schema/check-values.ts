/** Checks a value against the values of `enum` and `const`. */
import type { AllowedValues } from './answer-schema.ts'
import { allowsPrimitive } from './answer-schema.ts'
import { addError, type Check, type Location } from './check-context.ts'
import { deepEqual } from './deep-equal.ts'
import { listValues } from './error-text.ts'

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
