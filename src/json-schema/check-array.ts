/** Checks an array: its items, their number, which of them it contains, and whether they are all different. */
import type { ArrayRules, SchemaNode } from './answer-schema.ts'
import { addError, type Check, continues, type Location, passes } from './check-context.ts'
import { pluralize } from './error-text.ts'
import { equalItems } from './unique-items.ts'

export function checkArray(
  check: Check,
  rules: ArrayRules,
  value: readonly unknown[],
  location: Location | null,
): boolean {
  let ok = true
  const { minItems, maxItems, prefixItems, items } = rules
  if (value.length < minItems) {
    ok = addError(check, location, `must have at least ${pluralize(minItems, 'item')}`)
  }
  if (value.length > maxItems) {
    ok = addError(check, location, `must have at most ${pluralize(maxItems, 'item')}`)
  }
  if (rules.contains !== null && (ok || continues(check))) {
    ok = checkContains(check, rules, rules.contains, value, location) && ok
  }
  if (rules.uniqueItems && (ok || continues(check))) {
    const equal = equalItems(value, check.budget)
    if (equal !== null) {
      ok = addError(
        check,
        location,
        `must not have equal items, but those at ${equal[0]} and ${equal[1]} are equal`,
      )
    }
  }
  const last = items === null ? Math.min(prefixItems.length, value.length) : value.length
  for (let index = 0; index < last && (ok || continues(check)); index++) {
    const node = prefixItems[index] ?? items
    if (node !== null) ok = checkItem(check, node, value[index], { parent: location, key: index }) && ok
  }
  return ok
}

function checkItem(check: Check, node: SchemaNode, item: unknown, inside: Location): boolean {
  if (node.types !== 0) return check.checkNode(check, node, item, inside)
  check.budget.spend(1)
  return addError(check, inside, 'is not allowed: the schema does not allow an item here')
}

function checkContains(
  check: Check,
  { minContains, maxContains }: ArrayRules,
  node: SchemaNode,
  value: readonly unknown[],
  location: Location | null,
): boolean {
  let count = 0
  // Which of them fit does not matter once there are too many, or enough.
  const enough = maxContains === Number.POSITIVE_INFINITY ? minContains : maxContains + 1
  for (let index = 0; index < value.length && count < enough; index++) {
    if (passes(check, node, value[index])) count++
  }
  if (count < minContains) {
    return addError(check, location, `must have at least ${fitting(minContains)} the schema in contains`)
  }
  if (count > maxContains) {
    return addError(check, location, `must have at most ${fitting(maxContains)} the schema in contains`)
  }
  return true
}

function fitting(items: number): string {
  return `${pluralize(items, 'item')} that ${items === 1 ? 'fits' : 'fit'}`
}
