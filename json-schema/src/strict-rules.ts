/**
 * Decides whether OpenAI's structured outputs accept a schema with `strict: true`. In case of doubt, the answer is no: a schema
 * sent with `strict: false` still works, because Parley checks the answer, whereas a job fails if OpenAI rejects its schema.
 */
import { type AnswerSchema, isObject, type SchemaSource } from './answer-schema.ts'

/** OpenAI documents these limits (guide "Structured Outputs", section on supported schemas, in 2026). */
export const STRICT_MAX_PROPERTIES = 5_000
export const STRICT_MAX_DEPTH = 10
export const STRICT_MAX_ENUM_VALUES = 1_000
/** Counts the characters of all property names, definition names, enum values and const values together. */
const STRICT_MAX_TEXT = 120_000
/** If an enum has more string values than this, their total number of characters is limited as well. */
export const STRICT_LARGE_ENUM = 250
const STRICT_LARGE_ENUM_TEXT = 15_000

/** OpenAI also documents `minLength`, `maxLength` and `default`, but some servers, such as Azure's, reject them. */
const STRICT_KEYWORDS: ReadonlySet<string> = new Set([
  ...['type', 'properties', 'required', 'additionalProperties', 'items', 'enum', 'const', 'anyOf', '$ref'],
  ...['$defs', 'definitions', 'title', 'description', 'minimum', 'maximum', 'exclusiveMinimum'],
  ...['exclusiveMaximum', 'multipleOf', 'minItems', 'maxItems', 'pattern', 'format'],
])

const STRICT_FORMATS: ReadonlySet<string> = new Set([
  ...['date-time', 'time', 'date', 'duration', 'email', 'hostname', 'ipv4', 'ipv6', 'uuid'],
])

interface Totals {
  properties: number
  enumValues: number
  text: number
}

/** The schema must have been accepted by `readSchema`, so that its keywords have the right types and its depth is limited. */
export function meetsStrictRules({ source }: AnswerSchema): boolean {
  if (source.type !== 'object' || source.anyOf !== undefined || source.$ref !== undefined) return false
  const totals: Totals = { properties: 0, enumValues: 0, text: 0 }
  const { $schema: _, ...root } = source
  return (
    isStrict(root, 1, totals) &&
    totals.properties <= STRICT_MAX_PROPERTIES &&
    totals.enumValues <= STRICT_MAX_ENUM_VALUES &&
    totals.text <= STRICT_MAX_TEXT
  )
}

/**
 * @param depth how deep objects and arrays are nested, from 1; a definition also starts at 1, because references are not
 * followed
 */
function isStrict(schema: unknown, depth: number, totals: Totals): boolean {
  if (!isObject(schema) || depth > STRICT_MAX_DEPTH) return false
  if (!Object.keys(schema).every((keyword) => STRICT_KEYWORDS.has(keyword))) return false
  if (schema.$ref !== undefined) return isStrictRef(schema)
  if (schema.type === undefined && schema.anyOf === undefined) return false
  if (typeof schema.format === 'string' && !STRICT_FORMATS.has(schema.format)) return false
  const types: readonly unknown[] = Array.isArray(schema.type) ? schema.type : [schema.type]
  return (
    isStrictObject(schema, types.includes('object'), depth, totals) &&
    isStrictArray(schema, types.includes('array'), depth, totals) &&
    typeof schema.exclusiveMinimum !== 'boolean' &&
    typeof schema.exclusiveMaximum !== 'boolean' &&
    areStrictValues(schema, totals) &&
    areStrictBranches(schema.anyOf, depth, totals) &&
    [schema.$defs, schema.definitions].every((definitions) => areStrictDefinitions(definitions, totals))
  )
}

function areStrictBranches(branches: unknown, depth: number, totals: Totals): boolean {
  if (!Array.isArray(branches)) return true
  return branches.length > 0 && branches.every((branch) => isStrict(branch, depth, totals))
}

/** Strict mode does not allow other keywords next to `$ref`, not even a description. */
function isStrictRef(schema: SchemaSource): boolean {
  if (Object.keys(schema).length > 1) return false
  return typeof schema.$ref === 'string' && /^#(?:\/(?:\$defs|definitions)\/[^/]+)?$/.test(schema.$ref)
}

function isStrictObject(schema: SchemaSource, isNeeded: boolean, depth: number, totals: Totals): boolean {
  const { properties, required, additionalProperties } = schema
  if (!isNeeded)
    return properties === undefined && required === undefined && additionalProperties === undefined
  if (!isObject(properties) || !Array.isArray(required) || additionalProperties !== false) return false
  const names = Object.keys(properties)
  const needed = new Set<unknown>(required)
  totals.properties += names.length
  totals.text += textLength(names)
  if (needed.size !== names.length || !names.every((name) => needed.has(name))) return false
  return names.every((name) => isStrict(properties[name], depthInside(properties[name], depth), totals))
}

function isStrictArray(schema: SchemaSource, isNeeded: boolean, depth: number, totals: Totals): boolean {
  const { items, minItems, maxItems } = schema
  if (!isNeeded) return items === undefined && minItems === undefined && maxItems === undefined
  return isStrict(items, depthInside(items, depth), totals)
}

function depthInside(schema: unknown, depth: number): number {
  const holds =
    isObject(schema) &&
    (schema.properties !== undefined || schema.items !== undefined || schema.anyOf !== undefined)
  return holds ? depth + 1 : depth
}

function areStrictValues(schema: SchemaSource, totals: Totals): boolean {
  const { const: constant, enum: values } = schema
  const listed: readonly unknown[] = Array.isArray(values) ? values : []
  if (values !== undefined && listed.length === 0) return false
  const all = constant === undefined ? listed : [...listed, constant]
  if (all.some((value) => typeof value === 'object' && value !== null)) return false
  const text = textLength(all)
  totals.enumValues += listed.length
  totals.text += text
  return listed.length <= STRICT_LARGE_ENUM || text <= STRICT_LARGE_ENUM_TEXT
}

function areStrictDefinitions(definitions: unknown, totals: Totals): boolean {
  if (!isObject(definitions)) return definitions === undefined
  totals.text += textLength(Object.keys(definitions))
  return Object.values(definitions).every((schema) => isStrict(schema, 1, totals))
}

function textLength(values: readonly unknown[]): number {
  return values.reduce<number>((sum, value) => sum + String(value).length, 0)
}
