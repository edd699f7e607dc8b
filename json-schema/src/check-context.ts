/** The state of one check, which the files for the families of keywords share. */
import type { SchemaNode } from './answer-schema.ts'
import { answerPath } from './error-text.ts'
import { MAX_ERRORS, type StepBudget } from './limits.ts'

export interface Check {
  readonly budget: StepBudget
  /** Null while only the result matters, as for a branch of `anyOf`: then the first error ends the check. */
  errors: string[] | null
  depth: number
  /** Checks a value against a subschema; passed along so that the families need not import it. */
  readonly checkNode: CheckNode
}

export type CheckNode = (check: Check, node: SchemaNode, value: unknown, location: Location | null) => boolean

/** Thrown if schemas lead more than MAX_CHECK_DEPTH deep; the public functions of this folder catch it. */
export class TooDeep extends Error {}

/** A location in the answer, linked towards its root and formatted only for an error. null is the root. */
export interface Location {
  readonly parent: Location | null
  readonly key: string | number
}

/** Adds an error. Always returns false. */
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

/** Whether to look for more errors after one has been found. */
export function continues(check: Check): boolean {
  return check.errors !== null && check.errors.length < MAX_ERRORS
}

/** Whether the subschema accepts the value; reports no errors. */
export function passes(check: Check, node: SchemaNode, value: unknown): boolean {
  const { errors } = check
  check.errors = null
  const ok = check.checkNode(check, node, value, null)
  check.errors = errors
  return ok
}
