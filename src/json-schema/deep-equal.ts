/** Whether two JSON values are equal, as `enum` and `const` need it: the order of an object's keys does not count. */
import { isObject } from './answer-schema.ts'
import { chargedKeys, type StepBudget } from './step-budget.ts'

/** Recurses only as deep as the shallower of the two. Throws `StepBudgetExceeded`. */
export function deepEqual(one: unknown, other: unknown, budget: StepBudget): boolean {
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
