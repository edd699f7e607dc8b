/**
 * A caller's JSON schema as `readSchema` returns it: what the checker, the strict rules and the maker of examples work
 * on. Nothing outside this folder looks inside, and nothing changes it afterwards.
 */
import type { PatternProgram } from './patterns/compile-pattern.ts'
import type { PatternTree } from './patterns/pattern-tree.ts'
import type { FormatName } from './string-formats.ts'

/** Opaque to other folders. It refers to the parsed value that it was read from, which must not change afterwards. */
export interface AnswerSchema {
  readonly root: SchemaNode
  /** The schema as the caller wrote it. */
  readonly source: SchemaSource
}

/** A parsed JSON object. */
export type SchemaSource = { readonly [key: string]: unknown }

/** One subschema. Every field is always present, so that all nodes have one hidden class. */
export interface SchemaNode {
  /** Bits, see `typeBit`. The schemas `true` and `{}` have ALL_TYPES; the schema `false` has none. */
  types: number
  /** From `enum` and from `const`: the value must be in each list. */
  allowed: readonly AllowedValues[]
  anyOf: readonly SchemaNode[] | null
  /** Set once the whole schema has been read, as a reference may point forward. */
  ref: SchemaNode | null
  object: ObjectRules | null
  array: ArrayRules | null
  number: NumberRules | null
  string: StringRules | null
  /** The value of `default`: an annotation, used only to make examples. */
  default: { readonly value: unknown } | null
}

export interface ObjectRules {
  properties: ReadonlyMap<string, SchemaNode>
  required: readonly string[]
  /** null: any further property with any value. */
  additional: SchemaNode | null
}

export interface ArrayRules {
  items: SchemaNode | null
  minItems: number
  maxItems: number
}

export interface NumberRules {
  minimum: number
  maximum: number
  /** null where there is none: infinity would exclude 1e400, which is parsed as infinity. */
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
  /** Compiled when first matched: most requests only read a schema. */
  program: PatternProgram | null
}

/** The values of one `enum`, or the one of `const`. */
export interface AllowedValues {
  readonly keyword: 'enum' | 'const'
  readonly values: readonly unknown[]
  /** An index of the values where they are many, to find primitive ones in; null where they are few. */
  readonly index: ReadonlySet<unknown> | null
  /** The objects and arrays among the values. */
  readonly nested: readonly unknown[]
}

/** Whether a value that is neither object nor array is among the allowed values. */
export function allowsPrimitive({ values, index }: AllowedValues, value: unknown): boolean {
  return index === null ? values.includes(value) : index.has(value)
}

export const TYPE_NAMES = ['null', 'boolean', 'object', 'array', 'number', 'string', 'integer'] as const
export type TypeName = (typeof TYPE_NAMES)[number]

/** A type's bit in `SchemaNode.types`. */
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

/** The bits of all types that a JSON value has (an integer is a number too); 0 for anything else. */
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
    allowed: [],
    anyOf: null,
    ref: null,
    object: null,
    array: null,
    number: null,
    string: null,
    default: null,
  }
}
