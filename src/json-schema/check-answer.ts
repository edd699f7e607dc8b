/** Checks a model's answer against a caller's schema, within a budget of steps whatever the two look like. */
import type { AnswerSchema, ArrayRules, ObjectRules, SchemaNode, SchemaSource } from './answer-schema.ts'
import { ALL_TYPES, allowsPrimitive, isObject, typesOf } from './answer-schema.ts'
import { numberError } from './check-number.ts'
import { stringError } from './check-string.ts'
import { deepEqual } from './deep-equal.ts'
import { answerPath, listValues, pluralize, typeRule } from './error-text.ts'
import { CHECK_STEPS, MAX_CHECK_DEPTH, MAX_ERRORS } from './limits.ts'
import { chargedKeys, StepBudget, StepBudgetExceeded } from './step-budget.ts'

/** An error names the place and the rule: `items[2].age: must be an integer`; the whole answer is `(answer)`. */
export type CheckResult = { readonly ok: true } | { readonly ok: false; readonly errors: readonly string[] }

/**
 * Never throws. `answer` is parsed JSON. Reports at most MAX_ERRORS errors. When the steps run out, the answer counts
 * as wrong and the last error says why; `budget.spent` is then how many were taken.
 */
export function checkAnswer(
  schema: AnswerSchema,
  answer: unknown,
  budget = new StepBudget(CHECK_STEPS),
): CheckResult {
  const errors: string[] = []
  try {
    if (checkNode({ budget, errors, depth: 0 }, schema.root, answer, null)) return { ok: true }
  } catch (error) {
    if (error instanceof StepBudgetExceeded) {
      errors.push(`(answer): could not be checked: the schema takes more than ${budget.limit} steps on it`)
    } else if (error instanceof TooDeep) {
      errors.push(`(answer): could not be checked: it nests more than ${MAX_CHECK_DEPTH} schemas deep`)
    } else throw error
  }
  return { ok: false, errors }
}

/** Whether one subschema accepts the value; a value that nests too deep is not. Throws `StepBudgetExceeded`. */
export function accepts(node: SchemaNode, value: unknown, budget: StepBudget): boolean {
  try {
    return checkNode({ budget, errors: null, depth: 0 }, node, value, null)
  } catch (error) {
    if (error instanceof TooDeep) return false
    throw error
  }
}

class TooDeep extends Error {}

interface Check {
  readonly budget: StepBudget
  /** null while only yes or no matters, as for a branch of `anyOf`: then the first error ends the check. */
  errors: string[] | null
  depth: number
}

/** Where in the answer, linked towards its root and written out only for an error. null is the root itself. */
interface Location {
  readonly parent: Location | null
  readonly key: string | number
}

/** Always returns false. */
function addError(check: Check, location: Location | null, rule: string): false {
  if (check.errors !== null && check.errors.length < MAX_ERRORS) {
    check.errors.push(`${answerPath(pathOf(location))}: ${rule}`)
  }
  return false
}

function pathOf(location: Location | null): (string | number)[] {
  const path: (string | number)[] = []
  for (let at = location; at !== null; at = at.parent) path.unshift(at.key)
  return path
}

/** Whether to look for more errors after one has been found. */
function continues(check: Check): boolean {
  return check.errors !== null && check.errors.length < MAX_ERRORS
}

function checkNode(check: Check, node: SchemaNode, value: unknown, location: Location | null): boolean {
  check.budget.spend(1)
  const types = typesOf(value)
  if (node.types !== ALL_TYPES && (node.types & types) === 0) {
    return addError(check, location, typeRule(node.types))
  }
  if (++check.depth > MAX_CHECK_DEPTH) throw new TooDeep()
  let ok = node.allowed.length === 0 || checkAllowed(check, node, value, location)
  if ((ok || continues(check)) && node.ref !== null) ok = checkNode(check, node.ref, value, location) && ok
  if ((ok || continues(check)) && node.anyOf !== null) {
    ok = checkAnyOf(check, node.anyOf, value, location) && ok
  }
  if (ok || continues(check)) ok = checkContent(check, node, value, location) && ok
  check.depth--
  return ok
}

/** Checks the keywords that apply to one type of value only. */
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

function checkAllowed(check: Check, node: SchemaNode, value: unknown, location: Location | null): boolean {
  let ok = true
  for (const allowed of node.allowed) {
    const { keyword, values, nested } = allowed
    check.budget.spend(1)
    const found =
      typeof value === 'object' && value !== null
        ? nested.some((one) => deepEqual(one, value, check.budget))
        : allowsPrimitive(allowed, value)
    if (found) continue
    ok = addError(
      check,
      location,
      keyword === 'const' ? `must be ${listValues(values)}` : `must be one of ${listValues(values)}`,
    )
  }
  return ok
}

function checkArray(
  check: Check,
  rules: ArrayRules,
  value: readonly unknown[],
  location: Location | null,
): boolean {
  let ok = true
  const { minItems, maxItems, items } = rules
  if (value.length < minItems) {
    ok = addError(check, location, `must have at least ${pluralize(minItems, 'item')}`)
  }
  if (value.length > maxItems) {
    ok = addError(check, location, `must have at most ${pluralize(maxItems, 'item')}`)
  }
  if (items === null) return ok
  for (let index = 0; index < value.length && (ok || continues(check)); index++) {
    ok = checkNode(check, items, value[index], { parent: location, key: index }) && ok
  }
  return ok
}

/** Only own properties count: `{}` has no `toString`, and a key `__proto__` is a key like any other. */
function checkObject(
  check: Check,
  rules: ObjectRules,
  value: SchemaSource,
  location: Location | null,
): boolean {
  let ok = true
  check.budget.spend(rules.required.length / 2)
  for (const name of rules.required) {
    if (Object.hasOwn(value, name)) continue
    ok = addError(check, { parent: location, key: name }, 'is required')
    if (!continues(check)) return false
  }
  if (rules.additional === null) {
    check.budget.spend(rules.properties.size / 2)
    for (const [name, node] of rules.properties) {
      if (!Object.hasOwn(value, name)) continue
      ok = checkNode(check, node, value[name], { parent: location, key: name }) && ok
      if (!ok && !continues(check)) return false
    }
    return ok
  }
  for (const name of chargedKeys(value, check.budget)) {
    const node = rules.properties.get(name)
    const inside: Location = { parent: location, key: name }
    if (node !== undefined) ok = checkNode(check, node, value[name], inside) && ok
    else if (rules.additional.types === 0)
      ok = addError(check, inside, 'is not allowed: the schema has no such property')
    else ok = checkNode(check, rules.additional, value[name], inside) && ok
    if (!ok && !continues(check)) return false
  }
  return ok
}

/** When no branch accepts the value but only one can have been meant, reports that branch's own errors. */
function checkAnyOf(
  check: Check,
  branches: readonly SchemaNode[],
  value: unknown,
  location: Location | null,
): boolean {
  const { errors } = check
  check.errors = null
  for (const branch of branches) {
    if (checkNode(check, branch, value, location)) {
      check.errors = errors
      return true
    }
  }
  check.errors = errors
  if (!continues(check)) return false
  const likely = branches.filter((branch) => isLikely(branch, value, check.budget))
  const [only] = likely
  if (only !== undefined && likely.length === 1) return checkNode(check, only, value, location)
  return addError(check, location, `fits none of the ${pluralize(branches.length, 'schema')} in anyOf`)
}

/** Whether the value has the branch's type and, for an object, the constants that tell the branches apart. */
function isLikely(branch: SchemaNode, value: unknown, budget: StepBudget): boolean {
  budget.spend(1)
  if ((branch.types & typesOf(value)) === 0) return false
  if (branch.ref !== null && !isLikely(branch.ref, value, budget)) return false
  if (!isObject(value) || branch.object === null) return true
  for (const [name, node] of branch.object.properties) {
    budget.spend(1)
    const [tag] = node.allowed
    const isTag = tag !== undefined && tag.nested.length === 0 && Object.hasOwn(value, name)
    if (isTag && !allowsPrimitive(tag, value[name])) return false
  }
  return true
}
