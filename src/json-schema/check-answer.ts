/** Checks a model's answer against a caller's schema, within a budget of steps whatever the two look like. */
import type { AnswerSchema, ArrayRules, ObjectRules, SchemaNode, SchemaSource } from './answer-schema.ts'
import { ALL_TYPES, allowsPlain, isObject, TYPE_NAMES, typeBit, typesOf } from './answer-schema.ts'
import { CHECK_STEPS, MAX_CHECK_DEPTH, MAX_ERRORS } from './limits.ts'
import { numberFault, stringFault } from './check-string.ts'
import { ownKeys, sameJson } from './deep-equal.ts'
import { clip } from './read-context.ts'
import { Steps, StepsSpent } from './step-budget.ts'

/** An error names the place and the rule: `items[2].age: must be an integer`; the whole answer is `(answer)`. */
export type CheckedAnswer = { readonly ok: true } | { readonly ok: false; readonly errors: readonly string[] }

/**
 * Never throws. `answer` is parsed JSON. At most MAX_ERRORS errors. When the steps run out the answer counts as
 * wrong and the last error says why; `steps` tells afterwards how many were spent.
 */
export function checkAnswer(
  schema: AnswerSchema,
  answer: unknown,
  steps = new Steps(CHECK_STEPS),
): CheckedAnswer {
  const errors: string[] = []
  try {
    if (conforms({ steps, errors, depth: 0 }, schema.root, answer, null)) return { ok: true }
  } catch (error) {
    if (error instanceof StepsSpent) {
      errors.push(`(answer): could not be checked: the schema takes more than ${steps.limit} steps on it`)
    } else if (error instanceof TooDeep) {
      errors.push(`(answer): could not be checked: it nests more than ${MAX_CHECK_DEPTH} schemas deep`)
    } else throw error
  }
  return { ok: false, errors }
}

/** Whether the value meets one subschema; for `makeExample`. Throws `StepsSpent`; too deep counts as no. */
export function meetsNode(node: SchemaNode, value: unknown, steps: Steps): boolean {
  try {
    return conforms({ steps, errors: null, depth: 0 }, node, value, null)
  } catch (error) {
    if (error instanceof TooDeep) return false
    throw error
  }
}

class TooDeep extends Error {}

interface Check {
  readonly steps: Steps
  /** null while only yes or no is asked, as for a branch of `anyOf`: then the first fault ends it. */
  errors: string[] | null
  depth: number
}

/** Where in the answer, linked towards its root; written out only for an error. null is the root itself. */
interface Place {
  readonly up: Place | null
  readonly key: string | number
}

/** Notes the fault; always false. */
function fault(check: Check, place: Place | null, rule: string): false {
  if (check.errors !== null && check.errors.length < MAX_ERRORS)
    check.errors.push(`${placeText(place)}: ${rule}`)
  return false
}

/** Whether to look for more faults after one has been found. */
function goesOn(check: Check): boolean {
  return check.errors !== null && check.errors.length < MAX_ERRORS
}

function conforms(check: Check, node: SchemaNode, value: unknown, place: Place | null): boolean {
  check.steps.spend(1)
  const types = typesOf(value)
  if (node.types !== ALL_TYPES && (node.types & types) === 0) return fault(check, place, typeRule(node.types))
  if (++check.depth > MAX_CHECK_DEPTH) throw new TooDeep()
  let ok = node.allowed.length === 0 || checkAllowed(check, node, value, place)
  if ((ok || goesOn(check)) && node.ref !== null) ok = conforms(check, node.ref, value, place) && ok
  if ((ok || goesOn(check)) && node.anyOf !== null) ok = checkAnyOf(check, node.anyOf, value, place) && ok
  if (ok || goesOn(check)) ok = checkContent(check, node, value, place) && ok
  check.depth--
  return ok
}

/** The keywords that speak of one type of value only. */
function checkContent(check: Check, node: SchemaNode, value: unknown, place: Place | null): boolean {
  if (typeof value === 'string') {
    const rule = node.string === null ? null : stringFault(node.string, value, check.steps)
    return rule === null || fault(check, place, rule)
  }
  if (typeof value === 'number') {
    const rule = node.number === null ? null : numberFault(node.number, value, check.steps)
    return rule === null || fault(check, place, rule)
  }
  if (Array.isArray(value)) return node.array === null || checkArray(check, node.array, value, place)
  if (isObject(value)) return node.object === null || checkObject(check, node.object, value, place)
  return true
}

function checkAllowed(check: Check, node: SchemaNode, value: unknown, place: Place | null): boolean {
  let ok = true
  for (const allowed of node.allowed) {
    const { keyword, values, nested } = allowed
    check.steps.spend(1)
    const found =
      typeof value === 'object' && value !== null
        ? nested.some((one) => sameJson(one, value, check.steps))
        : allowsPlain(allowed, value)
    if (found) continue
    ok = fault(
      check,
      place,
      keyword === 'const' ? `must be ${shown(values)}` : `must be one of ${shown(values)}`,
    )
  }
  return ok
}

function checkArray(
  check: Check,
  rules: ArrayRules,
  value: readonly unknown[],
  place: Place | null,
): boolean {
  let ok = true
  const { minItems, maxItems, items } = rules
  if (value.length < minItems) ok = fault(check, place, `must have at least ${counted(minItems, 'item')}`)
  if (value.length > maxItems) ok = fault(check, place, `must have at most ${counted(maxItems, 'item')}`)
  if (items === null) return ok
  for (let index = 0; index < value.length && (ok || goesOn(check)); index++) {
    ok = conforms(check, items, value[index], { up: place, key: index }) && ok
  }
  return ok
}

/** Only own properties count: `{}` has no `toString`, and a key `__proto__` is a key like any other. */
function checkObject(check: Check, rules: ObjectRules, value: SchemaSource, place: Place | null): boolean {
  let ok = true
  check.steps.spend(rules.required.length / 2)
  for (const name of rules.required) {
    if (Object.hasOwn(value, name)) continue
    ok = fault(check, { up: place, key: name }, 'is required')
    if (!goesOn(check)) return false
  }
  if (rules.additional === null) {
    check.steps.spend(rules.properties.size / 2)
    for (const [name, node] of rules.properties) {
      if (!Object.hasOwn(value, name)) continue
      ok = conforms(check, node, value[name], { up: place, key: name }) && ok
      if (!ok && !goesOn(check)) return false
    }
    return ok
  }
  const names = ownKeys(value, check.steps)
  for (const name of names) {
    const node = rules.properties.get(name)
    const inside: Place = { up: place, key: name }
    if (node !== undefined) ok = conforms(check, node, value[name], inside) && ok
    else if (rules.additional.types === 0)
      ok = fault(check, inside, 'is not allowed: the schema has no such property')
    else ok = conforms(check, rules.additional, value[name], inside) && ok
    if (!ok && !goesOn(check)) return false
  }
  return ok
}

/** When no branch fits but only one can have been meant, that branch's own errors are reported. */
function checkAnyOf(
  check: Check,
  branches: readonly SchemaNode[],
  value: unknown,
  place: Place | null,
): boolean {
  const { errors } = check
  check.errors = null
  for (const branch of branches) {
    if (conforms(check, branch, value, place)) {
      check.errors = errors
      return true
    }
  }
  check.errors = errors
  if (!goesOn(check)) return false
  const meant = branches.filter((branch) => mayMean(branch, value, check.steps))
  const [only] = meant
  if (only !== undefined && meant.length === 1) return conforms(check, only, value, place)
  return fault(check, place, `fits none of the ${counted(branches.length, 'schema')} in anyOf`)
}

/** Whether the value has the branch's type and, for an object, the constants that tell the branches apart. */
function mayMean(branch: SchemaNode, value: unknown, steps: Steps): boolean {
  steps.spend(1)
  if ((branch.types & typesOf(value)) === 0) return false
  if (branch.ref !== null && !mayMean(branch.ref, value, steps)) return false
  if (!isObject(value) || branch.object === null) return true
  for (const [name, node] of branch.object.properties) {
    steps.spend(1)
    const [tag] = node.allowed
    const isTag = tag !== undefined && tag.nested.length === 0 && Object.hasOwn(value, name)
    if (isTag && !allowsPlain(tag, value[name])) return false
  }
  return true
}

const ARTICLES = /^(?:array|object|integer)$/

function typeRule(types: number): string {
  if (types === 0) return 'is not allowed: the schema there is false'
  const names = TYPE_NAMES.filter((name) => (types & typeBit(name)) !== 0)
  return `must be ${names.map((name) => (name === 'null' ? name : `${ARTICLES.test(name) ? 'an' : 'a'} ${name}`)).join(' or ')}`
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`
}

const MAX_SHOWN = 10

function shown(values: readonly unknown[]): string {
  const texts = values.slice(0, MAX_SHOWN).map(shownOne)
  const more = values.length - texts.length
  return `${texts.join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

function shownOne(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(clip(value))
  if (Array.isArray(value)) return 'the array of the schema'
  return typeof value === 'object' && value !== null ? 'the object of the schema' : String(value)
}

function placeText(place: Place | null): string {
  if (place === null) return '(answer)'
  const keys: (string | number)[] = []
  for (let at: Place | null = place; at !== null; at = at.up) keys.push(at.key)
  const text = keys.reduceRight<string>((path, key) => {
    if (typeof key === 'number') return `${path === '' ? '(answer)' : path}[${key}]`
    if (!/^[A-Za-z_$][\w$-]{0,79}$/.test(key))
      return `${path === '' ? '(answer)' : path}[${JSON.stringify(clip(key))}]`
    return path === '' ? key : `${path}.${key}`
  }, '')
  return text.length <= 400 ? text : `${text.slice(0, 200)}…${text.slice(-200)}`
}
