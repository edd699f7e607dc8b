/**
 * Finds equal items of an array, for `uniqueItems`, in time proportional to the size of the array: each object and array
 * among the items is written in a canonical form and looked up by it.
 */
import { isObject } from './answer-schema.ts'
import { TooDeep } from './check-context.ts'
import { MAX_CHECK_DEPTH } from './limits.ts'
import { chargedKeys, type StepBudget } from './step-budget.ts'

/** The indexes of the first two items that are equal, or null. Throws `StepBudgetExceeded` or `TooDeep`. */
export function equalItems(items: readonly unknown[], budget: StepBudget): [number, number] | null {
  if (items.length < 2) return null
  const seen = new Map<unknown, number>()
  const seenTexts = new Map<string, number>()
  for (const [index, item] of items.entries()) {
    // A large table that grows costs about 100 ns an entry.
    budget.spend(2)
    const before = isPrimitive(item)
      ? remember(seen, item, index)
      : remember(seenTexts, canonical(item, budget, 0), index)
    if (before !== null) return [before, index]
  }
  return null
}

/** The index where the key was seen before, or null. */
function remember<Key>(seen: Map<Key, number>, key: Key, index: number): number | null {
  const before = seen.get(key)
  if (before === undefined) seen.set(key, index)
  return before ?? null
}

function isPrimitive(value: unknown): boolean {
  return typeof value !== 'object' || value === null
}

/** Two values are equal exactly if these texts are: keys are in order, and 1.0 is 1. */
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
