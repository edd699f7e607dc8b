/** Whether two JSON values are equal, as `enum` and `const` ask: the order of an object's keys does not count. */
import { isObject, type SchemaSource } from './answer-schema.ts'
import type { Steps } from './step-budget.ts'

/** Recurses no deeper than the shallower of the two. Throws `StepsSpent`. */
export function sameJson(one: unknown, other: unknown, steps: Steps): boolean {
  steps.spend(1)
  if (one === other) return true
  if (Array.isArray(one)) {
    if (!Array.isArray(other) || one.length !== other.length) return false
    return one.every((item, index) => sameJson(item, other[index], steps))
  }
  if (!isObject(one) || !isObject(other)) return false
  const keys = ownKeys(one, steps)
  if (keys.length !== ownKeys(other, steps).length) return false
  return keys.every((key) => Object.hasOwn(other, key) && sameJson(one[key], other[key], steps))
}

/** `Object.keys`, paid for. Objects of many keys are hash tables, where listing them costs about 130 ns a key. */
export function ownKeys(value: SchemaSource, steps: Steps): string[] {
  const keys = Object.keys(value)
  steps.spend(keys.length > 100 ? 3 * keys.length : keys.length / 2)
  return keys
}
