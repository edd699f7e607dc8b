/**
 * Checks the properties of an object. Only own properties count: `{}` has no `toString`, and `__proto__` is an ordinary key.
 */
import type { ObjectRules, Pattern, SchemaNode, SchemaSource } from './answer-schema.ts'
import { addError, type Check, continues, type Location } from './check-context.ts'
import { matches } from './check-values.ts'
import { truncate } from './error-text.ts'
import { chargedKeys } from './limits.ts'

export function checkObject(
  check: Check,
  rules: ObjectRules,
  value: SchemaSource,
  location: Location | null,
): boolean {
  let ok = checkRequired(check, rules.required, value, location)
  if (!ok && !continues(check)) return false
  if (rules.dependentRequired.length > 0 || rules.dependentSchemas.length > 0) {
    ok = checkDependents(check, rules, value, location) && ok
    if (!ok && !continues(check)) return false
  }
  const looksAtKeys =
    rules.additional !== null ||
    rules.patternProperties.length > 0 ||
    rules.propertyNames !== null ||
    rules.minProperties > 0 ||
    rules.maxProperties !== Number.POSITIVE_INFINITY
  if (looksAtKeys) return checkKeys(check, rules, value, location) && ok
  check.budget.spend(rules.properties.size / 2)
  for (const [name, node] of rules.properties) {
    if (!Object.hasOwn(value, name)) continue
    ok = check.checkNode(check, node, value[name], { parent: location, key: name }) && ok
    if (!ok && !continues(check)) return false
  }
  return ok
}

function checkRequired(
  check: Check,
  required: readonly string[],
  value: SchemaSource,
  location: Location | null,
): boolean {
  let ok = true
  check.budget.spend(required.length / 2)
  for (const name of required) {
    if (Object.hasOwn(value, name)) continue
    ok = addError(check, { parent: location, key: name }, 'is required')
    if (!continues(check)) return false
  }
  return ok
}

function checkDependents(
  check: Check,
  rules: ObjectRules,
  value: SchemaSource,
  location: Location | null,
): boolean {
  let ok = true
  check.budget.spend((rules.dependentRequired.length + rules.dependentSchemas.length) / 2)
  for (const { name, names } of rules.dependentRequired) {
    if (!Object.hasOwn(value, name)) continue
    check.budget.spend(names.length / 2)
    for (const other of names) {
      if (Object.hasOwn(value, other)) continue
      const rule = `is required where ${JSON.stringify(truncate(name))} is present`
      ok = addError(check, { parent: location, key: other }, rule)
      if (!continues(check)) return false
    }
  }
  for (const { name, node } of rules.dependentSchemas) {
    if (!Object.hasOwn(value, name)) continue
    ok = check.checkNode(check, node, value, location) && ok
    if (!ok && !continues(check)) return false
  }
  return ok
}

function checkKeys(
  check: Check,
  rules: ObjectRules,
  value: SchemaSource,
  location: Location | null,
): boolean {
  const keys = chargedKeys(value, check.budget)
  let ok = true
  if (keys.length < rules.minProperties) {
    ok = addError(check, location, `must have at least ${countOf(rules.minProperties)}`)
  }
  if (keys.length > rules.maxProperties) {
    ok = addError(check, location, `must have at most ${countOf(rules.maxProperties)}`)
  }
  if (!ok && !continues(check)) return false
  for (const name of keys) {
    ok = checkKey(check, rules, name, value[name], { parent: location, key: name }) && ok
    if (!ok && !continues(check)) return false
  }
  return ok
}

function checkKey(check: Check, rules: ObjectRules, name: string, value: unknown, inside: Location): boolean {
  let ok = rules.propertyNames === null || checkName(check, rules.propertyNames, name, inside)
  const node = rules.properties.get(name)
  let isKnown = node !== undefined
  if (node !== undefined && (ok || continues(check))) ok = check.checkNode(check, node, value, inside) && ok
  for (const property of rules.patternProperties) {
    check.budget.spend(1)
    if (!matches(property.pattern, name, check.budget)) continue
    isKnown = true
    if (ok || continues(check)) ok = check.checkNode(check, property.node, value, inside) && ok
  }
  if (isKnown || rules.additional === null || !(ok || continues(check))) return ok
  if (rules.additional.types !== 0) return check.checkNode(check, rules.additional, value, inside) && ok
  const { patternProperties } = rules
  const [only] = patternProperties
  if (only === undefined) return addError(check, inside, 'is not allowed: the schema has no such property')
  return addError(check, inside, `is not allowed: ${noSuchName(only.pattern, patternProperties.length)}`)
}

function noSuchName(pattern: Pattern, count: number): string {
  if (count > 1) return 'the schema has no such property, and none of patternProperties matches'
  return `the schema has no such property, and ${truncate(pattern.text)} does not match`
}

/** Errors of a name are reported at the location of the property. */
function checkName(check: Check, node: SchemaNode, name: string, inside: Location): boolean {
  const { errors } = check
  const found: string[] = []
  check.errors = errors === null ? null : found
  const ok = check.checkNode(check, node, name, null)
  check.errors = errors
  if (ok) return true
  const rule = found[0]?.replace(/^\(answer\): /, '') ?? ''
  return addError(check, inside, `is not an allowed name: a name ${rule}`)
}

function countOf(properties: number): string {
  return `${properties} ${properties === 1 ? 'property' : 'properties'}`
}
