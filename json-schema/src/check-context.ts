/** Holds the state of one check, which the files that check groups of keywords share. */
import type { SchemaNode } from './answer-schema.ts'
import { answerPath } from './error-text.ts'
import { MAX_ERRORS, type StepBudget } from './limits.ts'

export interface Check {
  readonly budget: StepBudget
  /** `errors` is null if only the result matters, as for a branch of `anyOf`. The first error then ends the check. */
  errors: string[] | null
  depth: number
  /** Passed along, because importing the function would create an import cycle. */
  readonly checkNode: CheckNode
}

export type CheckNode = (check: Check, node: SchemaNode, value: unknown, location: Location | null) => boolean

/** Thrown if a check nests schemas or values more than MAX_CHECK_DEPTH deep. The public functions of this package catch it. */
export class TooDeep extends Error {}

/** Null is the root of the answer. A location refers to its parent, and becomes text only if there is an error. */
export interface Location {
  readonly parent: Location | null
  readonly key: string | number
}

/** Always returns false, which is the result of the check. */
export function addError(check: Check, location: Location | null, rule: string): false {
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

export function continues(check: Check): boolean {
  return check.errors !== null && check.errors.length < MAX_ERRORS
}

export function passes(check: Check, node: SchemaNode, value: unknown): boolean {
  const { errors } = check
  check.errors = null
  const ok = check.checkNode(check, node, value, null)
  check.errors = errors
  return ok
}
