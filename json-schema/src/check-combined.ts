/** Checks a value against other schemas that apply to the same value: `allOf`, `anyOf`, `oneOf`, `not` and `if`. */
import { allowsPrimitive, type CombinedRules, isObject, type SchemaNode, typesOf } from './answer-schema.ts'
import { addError, type Check, continues, type Location, passes } from './check-context.ts'
import { pluralize } from './error-text.ts'
import type { StepBudget } from './limits.ts'

export function checkCombined(
  check: Check,
  rules: CombinedRules,
  value: unknown,
  location: Location | null,
): boolean {
  const { allOf, anyOf, oneOf, not, condition } = rules
  let ok = true
  for (const node of allOf) {
    ok = check.checkNode(check, node, value, location) && ok
    if (!ok && !continues(check)) return false
  }
  if (anyOf !== null) ok = checkAnyOf(check, anyOf, value, location) && ok
  if (oneOf !== null && (ok || continues(check))) ok = checkOneOf(check, oneOf, value, location) && ok
  if (not !== null && (ok || continues(check)) && passes(check, not, value)) {
    ok = addError(check, location, 'must not match the schema in not')
  }
  if (condition !== null && (ok || continues(check))) {
    const chosen = passes(check, condition, value) ? rules.consequence : rules.alternative
    if (chosen !== null) ok = check.checkNode(check, chosen, value, location) && ok
  }
  return ok
}

function checkAnyOf(
  check: Check,
  branches: readonly SchemaNode[],
  value: unknown,
  location: Location | null,
): boolean {
  if (branches.some((branch) => passes(check, branch, value))) return true
  return fitsNone(check, branches, 'anyOf', value, location)
}

function checkOneOf(
  check: Check,
  branches: readonly SchemaNode[],
  value: unknown,
  location: Location | null,
): boolean {
  let fitting = -1
  for (const [index, branch] of branches.entries()) {
    if (!passes(check, branch, value)) continue
    if (fitting >= 0) {
      const which = `those at ${fitting} and ${index}`
      return addError(check, location, `must match exactly one schema in oneOf, but matches ${which}`)
    }
    fitting = index
  }
  return fitting >= 0 || fitsNone(check, branches, 'oneOf', value, location)
}

/** If only one branch is likely, its errors help more than a list of branches. Always returns false. */
function fitsNone(
  check: Check,
  branches: readonly SchemaNode[],
  keyword: 'anyOf' | 'oneOf',
  value: unknown,
  location: Location | null,
): false {
  if (!continues(check)) return false
  if (branches.length === 0)
    return addError(check, location, `is not allowed: the ${keyword} of the schema is empty`)
  const likely = branches.filter((branch) => isLikely(branch, value, check.budget))
  const [only] = likely
  if (only !== undefined && likely.length === 1) {
    check.checkNode(check, only, value, location)
    return false
  }
  return addError(
    check,
    location,
    `does not match any of the ${pluralize(branches.length, 'schema')} in ${keyword}`,
  )
}

/** A likely branch has the type of the value and, for objects, the constants that distinguish the branches. */
function isLikely(branch: SchemaNode, value: unknown, budget: StepBudget): boolean {
  budget.spend(1)
  if ((branch.types & typesOf(value)) === 0) return false
  if (branch.ref !== null && !isLikely(branch.ref, value, budget)) return false
  if (branch.combined !== null && !branch.combined.allOf.every((node) => isLikely(node, value, budget))) {
    return false
  }
  if (!isObject(value) || branch.object === null) return true
  for (const [name, node] of branch.object.properties) {
    budget.spend(1)
    const [tag] = node.allowed
    const isTag = tag !== undefined && tag.nested.length === 0 && Object.hasOwn(value, name)
    if (isTag && !allowsPrimitive(tag, value[name])) return false
  }
  return true
}
