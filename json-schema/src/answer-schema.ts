/**
 * A caller's JSON schema as `readSchema` returns it, for the checker, the strict rules and the example generator. Only this
 * folder uses its fields, and nothing changes it afterwards.
 */
import type { PatternProgram } from './patterns/compile-pattern.ts'
import type { PatternTree } from './patterns/read-pattern.ts'
import type { FormatName } from './string-formats.ts'

/** Opaque to other folders. It shares the parsed value from which it was read, which must not change afterwards. */
export interface AnswerSchema {
  readonly root: SchemaNode
  /** The schema as the caller wrote it. */
  readonly source: SchemaSource
  /** The keywords that Parley does not enforce. */
  readonly ignored: IgnoredKeywords
}

/** Keywords that are accepted but not enforced: annotations, unknown keywords, unchecked formats. */
export interface IgnoredKeywords {
  /** JSON pointers (RFC 6901) from the root of the schema to each keyword, at most MAX_IGNORED of them. */
  readonly pointers: readonly string[]
  /** The number of further keywords. */
  readonly more: number
}

/** A parsed JSON object. */
export type SchemaSource = { readonly [key: string]: unknown }

/** One subschema. Every field is always present, so that all nodes have one hidden class. */
export interface SchemaNode {
  /** Bits of the accepted types, see `typeBit`. The schemas `true` and `{}` have ALL_TYPES; the schema `false` has none. */
  types: number
  /** `nullable` as in OpenAPI: null is accepted, regardless of the other keywords. */
  nullable: boolean
  /** The lists of `enum` and `const`; the value must be in each. */
  allowed: readonly AllowedValues[]
  /** Set after the whole schema has been read, because a reference may point forward. */
  ref: SchemaNode | null
  combined: CombinedRules | null
  object: ObjectRules | null
  array: ArrayRules | null
  number: NumberRules | null
  string: StringRules | null
  /** The value of `default`, used only to make examples. */
  default: { readonly value: unknown } | null
}

/** Schemas that apply to the value itself ("in place"), and not to a part of it. */
export interface CombinedRules {
  allOf: readonly SchemaNode[]
  anyOf: readonly SchemaNode[] | null
  oneOf: readonly SchemaNode[] | null
  not: SchemaNode | null
  /** The schema of `if`. `then` and `else` have no effect without it. */
  condition: SchemaNode | null
  consequence: SchemaNode | null
  alternative: SchemaNode | null
}

export interface ObjectRules {
  properties: ReadonlyMap<string, SchemaNode>
  patternProperties: readonly PatternProperty[]
  required: readonly string[]
  /** The schema of further properties; null if they may have any value. */
  additional: SchemaNode | null
  propertyNames: SchemaNode | null
  minProperties: number
  maxProperties: number
  /** Properties that must be present if the named one is. */
  dependentRequired: { readonly name: string; readonly names: readonly string[] }[]
  /** Schemas that apply to an object that has the named property. */
  dependentSchemas: { readonly name: string; readonly node: SchemaNode }[]
}

export interface PatternProperty {
  readonly pattern: Pattern
  readonly node: SchemaNode
}

export interface ArrayRules {
  /** The schemas of the first items, one each. */
  prefixItems: readonly SchemaNode[]
  /** The schema of all items after those. */
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
  /** Null if there is none: infinity would exclude 1e400, which is parsed as infinity. */
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
  /** The number of instructions of the compiled pattern, or slightly more. */
  readonly size: number
  /** Compiled at the first match, because most requests only read a schema. */
  program: PatternProgram | null
}

/** The values of one `enum`, or the one of `const`. */
export interface AllowedValues {
  readonly keyword: 'enum' | 'const'
  readonly values: readonly unknown[]
  /** An index of the primitive values; null if there are few. */
  readonly index: ReadonlySet<unknown> | null
  /** The objects and arrays among the values. */
  readonly nested: readonly unknown[]
}

/** Whether a value that is neither object nor array is among the allowed values. */
export function allowsPrimitive({ values, index }: AllowedValues, value: unknown): boolean {
  return index === null ? values.includes(value) : index.has(value)
}

export const TYPE_NAMES = ['null', 'boolean', 'object', 'array', 'number', 'string', 'integer'] as const
type TypeName = (typeof TYPE_NAMES)[number]

/** Returns a type's bit in `SchemaNode.types`. */
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

/** Returns the bits of all types of a JSON value (an integer is also a number); 0 for anything else. */
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

/** Returns the schemas that apply to the same value as the node itself. */
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
