/** Checks an array: its items, their number, items that it must contain, and whether all items are different. */
import { type ArrayRules, isObject, type SchemaNode } from './answer-schema.ts'
import { addError, type Check, continues, type Location, passes, TooDeep } from './check-context.ts'
import { pluralize } from './error-text.ts'
import { chargedKeys, MAX_CHECK_DEPTH, type StepBudget } from './limits.ts'

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
  // After enough items, or one too many, the remaining items do not matter.
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

/** Returns the indexes of the first two equal items, or null if all are different. Throws `StepBudgetExceeded` or `TooDeep`. */
function equalItems(items: readonly unknown[], budget: StepBudget): [number, number] | null {
  if (items.length < 2) return null
  const seen = new Map<unknown, number>()
  const seenTexts = new Map<string, number>()
  for (const [index, item] of items.entries()) {
    // Adding an entry to a large map takes about 100 ns.
    budget.spend(2)
    const before = isPrimitive(item)
      ? remember(seen, item, index)
      : remember(seenTexts, canonical(item, budget, 0), index)
    if (before !== null) return [before, index]
  }
  return null
}

function remember<Key>(seen: Map<Key, number>, key: Key, index: number): number | null {
  const before = seen.get(key)
  if (before === undefined) seen.set(key, index)
  return before ?? null
}

function isPrimitive(value: unknown): boolean {
  return typeof value !== 'object' || value === null
}

/** The text is the same only for equal values: keys are sorted, and 1.0 becomes 1. */
function canonical(value: unknown, budget: StepBudget, depth: number): string {
  budget.spend(2)
  if (depth > MAX_CHECK_DEPTH) throw new TooDeep()
  if (Array.isArray(value)) return `[${value.map((item) => canonical(item, budget, depth + 1)).join()}]`
  if (isObject(value)) {
    const keys = chargedKeys(value, budget).sort()
    budget.spend(keys.length * Math.log2(1 + keys.length))
    const parts = keys.map((key) => `${text(key, budget)}:${canonical(value[key], budget, depth + 1)}`)
    return `{${parts.join()}}`
  }
  if (typeof value === 'string') return text(value, budget)
  return Object.is(value, -0) ? '0' : String(value)
}

function text(value: string, budget: StepBudget): string {
  budget.spend(1 + value.length / 16)
  return JSON.stringify(value)
}
