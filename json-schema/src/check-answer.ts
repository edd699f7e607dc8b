/** Checks a model's answer against a caller's schema, within a budget of steps. */

import { ALL_TYPES, type AnswerSchema, isObject, type SchemaNode, typesOf } from './answer-schema.ts'
import { checkArray } from './check-array.ts'
import { checkCombined } from './check-combined.ts'
import { addError, type Check, continues, type Location, TooDeep } from './check-context.ts'
import { checkObject } from './check-object.ts'
import { checkAllowed, numberError, stringError } from './check-values.ts'
import { answerPath, typeRule } from './error-text.ts'
import { CHECK_STEPS, MAX_CHECK_DEPTH, StepBudget, StepBudgetExceeded } from './limits.ts'

/** Errors have the form `items[2].age: must be an integer`. The whole answer is `(answer)`. */
export type CheckResult =
  | { readonly ok: true }
  | { readonly ok: false; readonly kind: 'wrong'; readonly errors: readonly string[] }
  /** The budget was spent before an error was found. The reason says what to change in the schema. */
  | { readonly ok: false; readonly kind: 'not checked'; readonly reason: string }

/**
 * Checks an answer, which must be parsed JSON. Never throws. Reports at most MAX_ERRORS errors. If an error was found before
 * the budget is spent, the answer is wrong. Afterwards, `budget.spent` is the number of steps that the check took.
 */
export function checkAnswer(
  schema: AnswerSchema,
  answer: unknown,
  budget = new StepBudget(CHECK_STEPS),
): CheckResult {
  const errors: string[] = []
  try {
    if (checkNode(newCheck(budget, errors), schema.root, answer, null)) return { ok: true }
  } catch (error) {
    const reason = reasonOf(error, budget)
    if (errors.length === 0) return { ok: false, kind: 'not checked', reason }
  }
  return { ok: false, kind: 'wrong', errors }
}

function reasonOf(error: unknown, budget: StepBudget): string {
  if (error instanceof StepBudgetExceeded) {
    return `checking the answer against the schema takes more than ${budget.limit} steps`
  }
  if (error instanceof TooDeep) {
    return `checking the answer nests more than ${MAX_CHECK_DEPTH} schemas`
  }
  throw error
}

/** If the check is nested too deeply, the subschema does not accept the value. Throws `StepBudgetExceeded`. */
export function accepts(node: SchemaNode, value: unknown, budget: StepBudget): boolean {
  try {
    return checkNode(newCheck(budget, null), node, value, null)
  } catch (error) {
    if (error instanceof TooDeep) return false
    throw error
  }
}

function newCheck(budget: StepBudget, errors: string[] | null): Check {
  return { budget, errors, depth: 0, checkNode }
}

function checkNode(check: Check, node: SchemaNode, value: unknown, location: Location | null): boolean {
  check.budget.spend(1)
  if (value === null && node.nullable) return true
  if (node.types !== ALL_TYPES && (node.types & typesOf(value)) === 0) {
    return addError(check, location, typeRule(node.types))
  }
  if (++check.depth > MAX_CHECK_DEPTH) throw new TooDeep()
  let ok = node.allowed.length === 0 || checkAllowed(check, node.allowed, value, location)
  if (node.ref !== null && (ok || continues(check))) ok = checkNode(check, node.ref, value, location) && ok
  if (node.combined !== null && (ok || continues(check))) {
    ok = checkCombined(check, node.combined, value, location) && ok
  }
  if (ok || continues(check)) ok = checkContent(check, node, value, location) && ok
  check.depth--
  return ok
}

function checkContent(check: Check, node: SchemaNode, value: unknown, location: Location | null): boolean {
  if (typeof value === 'string') {
    const error = node.string === null ? null : stringError(node.string, value, check.budget)
    return error === null || addError(check, location, error)
  }
  if (typeof value === 'number') {
    const error = node.number === null ? null : numberError(node.number, value, check.budget)
    return error === null || addError(check, location, error)
  }
  if (Array.isArray(value)) return node.array === null || checkArray(check, node.array, value, location)
  if (isObject(value)) return node.object === null || checkObject(check, node.object, value, location)
  return true
}

type Path = (string | number)[]

/**
 * Returns an error for the first infinite number in parsed JSON, with its location, or null if there is none. The caller must
 * limit the nesting of the value, because the search is recursive.
 */
export function infiniteNumberError(value: unknown): string | null {
  const path = infinitePath(value)
  return path === null ? null : `${answerPath(path.reverse())}: must be a number of at most 1.8e308`
}

/** Returns the path from the number to the root, or null if there is no infinite number. */
function infinitePath(value: unknown): Path | null {
  if (typeof value === 'number') return Number.isFinite(value) ? null : []
  if (typeof value !== 'object' || value === null) return null
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      const path = infinitePath(value[index])
      if (path !== null) return [...path, index]
    }
    return null
  }
  for (const [key, member] of Object.entries(value)) {
    const path = infinitePath(member)
    if (path !== null) return [...path, key]
  }
  return null
}
