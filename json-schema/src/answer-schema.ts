/**
 * A caller's JSON Schema in the form that `readSchema` returns. The checker, the strict rules and the example generator use it.
 * Nothing changes it after it was read.
 */
import type { PatternProgram } from './patterns/compile-pattern.ts'
import type { PatternTree } from './patterns/read-pattern.ts'
import type { FormatName } from './string-formats.ts'

/**
 * Other packages must not use its fields. It refers to parts of the parsed value from which it was read, so that value must not
 * change.
 */
export interface AnswerSchema {
  readonly root: SchemaNode
  /** The schema as the caller wrote it. */
  readonly source: SchemaSource
  /** The keywords that Parley does not enforce. */
  readonly ignored: IgnoredKeywords
}

/** Keywords that are accepted but not enforced: annotations, unknown keywords, unchecked formats. */
export interface IgnoredKeywords {
  /** JSON pointers (RFC 6901) from the root of the schema to at most MAX_IGNORED of the keywords. */
  readonly pointers: readonly string[]
  /** The number of further keywords. */
  readonly more: number
}

/** A parsed JSON object. */
export type SchemaSource = { readonly [key: string]: unknown }

/** One subschema. All nodes have all fields, so that the JavaScript engine treats them as the same shape, which is faster. */
export interface SchemaNode {
  /** The accepted types, as bits: see `typeBit`. The schemas `true` and `{}` have ALL_TYPES; the schema `false` has none. */
  types: number
  /** `nullable` of OpenAPI: null is accepted regardless of the other keywords. */
  nullable: boolean
  /** The lists of `enum` and `const`. The value must be in each of them. */
  allowed: readonly AllowedValues[]
  /** The target of `$ref`. It is set after the whole schema has been read, because the target may come later in the schema. */
  ref: SchemaNode | null
  combined: CombinedRules | null
  object: ObjectRules | null
  array: ArrayRules | null
  number: NumberRules | null
  string: StringRules | null
  /** The value of `default`, which only the example generator uses. */
  default: { readonly value: unknown } | null
}

/** Schemas that apply to the value itself, not to a part of it. */
export interface CombinedRules {
  allOf: readonly SchemaNode[]
  anyOf: readonly SchemaNode[] | null
  oneOf: readonly SchemaNode[] | null
  not: SchemaNode | null
  /** The schema of `if`. Without it, `then` and `else` have no effect. */
  condition: SchemaNode | null
  consequence: SchemaNode | null
  alternative: SchemaNode | null
}

export interface ObjectRules {
  properties: ReadonlyMap<string, SchemaNode>
  patternProperties: readonly PatternProperty[]
  required: readonly string[]
  /** The schema of properties that no other keyword covers; null if they may have any value. */
  additional: SchemaNode | null
  propertyNames: SchemaNode | null
  minProperties: number
  maxProperties: number
  /** The properties in `names` are required if the property `name` is present. */
  dependentRequired: { readonly name: string; readonly names: readonly string[] }[]
  /** The schema `node` applies to the object if the property `name` is present. */
  dependentSchemas: { readonly name: string; readonly node: SchemaNode }[]
}

export interface PatternProperty {
  readonly pattern: Pattern
  readonly node: SchemaNode
}

export interface ArrayRules {
  /** The schemas of the first items, one for each. */
  prefixItems: readonly SchemaNode[]
  /** The schema of all further items. */
  items: SchemaNode | null
  minItems: number
  maxItems: number
  contains: SchemaNode | null
  minContains: number
  maxContains: number
  uniqueItems: boolean
}

export interface NumberRules {
  minimum: number
  maximum: number
  /**
   * Null if there is no such bound. Infinity would not work, because it would exclude 1e400, which JavaScript parses as
   * infinity.
   */
  exclusiveMinimum: number | null
  exclusiveMaximum: number | null
  multipleOf: number | null
}

export interface StringRules {
  minLength: number
  maxLength: number
  pattern: Pattern | null
  format: FormatName | null
}

export interface Pattern {
  readonly text: string
  readonly tree: PatternTree
  /** How many instructions the compiled pattern has, or slightly more. */
  readonly size: number
  /** Null until the first match, because most requests only read a schema and do not match anything. */
  program: PatternProgram | null
}

/** The values of an `enum`, or the value of a `const`. */
export interface AllowedValues {
  readonly keyword: 'enum' | 'const'
  readonly values: readonly unknown[]
  /** A set of the values that are neither objects nor arrays; null if there are few. */
  readonly index: ReadonlySet<unknown> | null
  /** The values that are objects or arrays. */
  readonly nested: readonly unknown[]
}

/** Whether a value that is neither object nor array is allowed. */
export function allowsPrimitive({ values, index }: AllowedValues, value: unknown): boolean {
  return index === null ? values.includes(value) : index.has(value)
}

export const TYPE_NAMES = ['null', 'boolean', 'object', 'array', 'number', 'string', 'integer'] as const
type TypeName = (typeof TYPE_NAMES)[number]

/** Returns the bit of a type in `SchemaNode.types`. */
export function typeBit(name: TypeName): number {
  return 1 << TYPE_NAMES.indexOf(name)
}

export const ALL_TYPES = (1 << TYPE_NAMES.length) - 1

const NULL = typeBit('null')
const BOOLEAN = typeBit('boolean')
const OBJECT = typeBit('object')
const ARRAY = typeBit('array')
const NUMBER = typeBit('number')
const STRING = typeBit('string')
const INTEGER = typeBit('integer')

/** Returns the bits of all types of a JSON value; an integer is also a number. Returns 0 for anything else. */
export function typesOf(value: unknown): number {
  switch (typeof value) {
    case 'string':
      return STRING
    case 'number':
      return Number.isInteger(value) ? NUMBER | INTEGER : NUMBER
    case 'boolean':
      return BOOLEAN
    case 'object':
      return value === null ? NULL : Array.isArray(value) ? ARRAY : OBJECT
    default:
      return 0
  }
}

export function isObject(value: unknown): value is SchemaSource {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function newNode(types: number): SchemaNode {
  return {
    types,
    nullable: false,
    allowed: [],
    ref: null,
    combined: null,
    object: null,
    array: null,
    number: null,
    string: null,
    default: null,
  }
}

/** Returns the schemas that apply to the same value as the node. */
export function inPlaceNodes({ ref, combined, object }: SchemaNode): SchemaNode[] {
  const nodes = ref === null ? [] : [ref]
  if (combined !== null) {
    nodes.push(...combined.allOf, ...(combined.anyOf ?? []), ...(combined.oneOf ?? []))
    for (const one of [combined.not, combined.condition, combined.consequence, combined.alternative])
      if (one !== null) nodes.push(one)
  }
  for (const { node } of object?.dependentSchemas ?? []) nodes.push(node)
  return nodes
}
