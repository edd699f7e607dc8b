/**
 * Defines the form of a caller's JSON Schema that `readSchema` returns. The checker, the strict rules and the example generator
 * use it. Nothing changes it after it was read.
 */
import type { PatternProgram } from './patterns/compile-pattern.ts'
import type { PatternTree } from './patterns/read-pattern.ts'
import type { FormatName } from './string-formats.ts'

/** Other packages must not use the fields. They refer to parts of the caller's value, which must not change. */
export interface AnswerSchema {
  readonly root: SchemaNode
  readonly source: SchemaSource
  readonly ignored: IgnoredKeywords
}

/** Annotations, unknown keywords and unchecked formats are accepted but not enforced. */
export interface IgnoredKeywords {
  /** Contains at most MAX_IGNORED JSON pointers (RFC 6901) from the root of the schema to the keywords. */
  readonly pointers: readonly string[]
  readonly more: number
}

export type SchemaSource = { readonly [key: string]: unknown }

/** All nodes have all fields. The JavaScript engine then treats them as the same shape, which is faster. */
export interface SchemaNode {
  /** Each accepted type has its bit of `typeBit`. The schemas `true` and `{}` have ALL_TYPES. The schema `false` has none. */
  types: number
  /** With `nullable` of OpenAPI, null is accepted regardless of the other keywords. */
  nullable: boolean
  /** The value must be in each of these lists, which come from `enum` and `const`. */
  allowed: readonly AllowedValues[]
  /** The target of `$ref` is set after the whole schema has been read, because the target may come later in the schema. */
  ref: SchemaNode | null
  combined: CombinedRules | null
  object: ObjectRules | null
  array: ArrayRules | null
  number: NumberRules | null
  string: StringRules | null
  /** Only the example generator uses `default`. */
  default: { readonly value: unknown } | null
}

/** These schemas apply to the value itself, not to a part of it. */
export interface CombinedRules {
  allOf: readonly SchemaNode[]
  anyOf: readonly SchemaNode[] | null
  oneOf: readonly SchemaNode[] | null
  not: SchemaNode | null
  /** `condition` is the schema of `if`. Without it, `then` and `else` have no effect. */
  condition: SchemaNode | null
  consequence: SchemaNode | null
  alternative: SchemaNode | null
}

export interface ObjectRules {
  properties: ReadonlyMap<string, SchemaNode>
  patternProperties: readonly PatternProperty[]
  required: readonly string[]
  /** Properties that no other keyword covers have this schema. Null means that they may have any value. */
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
  prefixItems: readonly SchemaNode[]
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
  /** Infinity cannot mean "no bound": it would exclude 1e400, which JavaScript parses as infinity. */
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
  /** The size is the number of instructions of the compiled pattern, or slightly more. */
  readonly size: number
  /** The pattern is compiled at its first match, because most requests only read a schema. */
  program: PatternProgram | null
}

export interface AllowedValues {
  readonly keyword: 'enum' | 'const'
  readonly values: readonly unknown[]
  /** Holds the values that are neither objects nor arrays. It is null for few values, because a search is faster. */
  readonly index: ReadonlySet<unknown> | null
  readonly nested: readonly unknown[]
}

export function allowsPrimitive({ values, index }: AllowedValues, value: unknown): boolean {
  return index === null ? values.includes(value) : index.has(value)
}

export const TYPE_NAMES = ['null', 'boolean', 'object', 'array', 'number', 'string', 'integer'] as const
type TypeName = (typeof TYPE_NAMES)[number]

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

/** An integer is also a number. Returns 0 for anything that is not a JSON value. */
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
