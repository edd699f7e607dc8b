/** How each keyword of a caller's schema is read: one function each, and a remedy for those that are rejected. */
import type {
  AllowedValues,
  ArrayRules,
  NumberRules,
  ObjectRules,
  SchemaNode,
  StringRules,
} from './answer-schema.ts'
import { isObject, TYPE_NAMES, typeBit } from './answer-schema.ts'
import { truncate } from './error-text.ts'
import { MAX_PATTERNS_SIZE, MAX_SCHEMA_DEPTH } from './limits.ts'
import { readPattern } from './patterns/read-pattern.ts'
import { countParts, expectParts, type ReadContext, reject } from './read-context.ts'
import { FORMAT_NAMES, isFormatName } from './string-formats.ts'

/** Puts one keyword's value into the node, or rejects it. `context.path` already ends in the keyword. */
type ReadKeyword = (context: ReadContext, node: SchemaNode, value: unknown) => void

/** A map and not an object, so that a keyword called `constructor` is simply unknown. */
export const KEYWORDS: ReadonlyMap<string, ReadKeyword> = new Map<string, ReadKeyword>([
  ['type', readType],
  ['properties', readProperties],
  ['required', readRequired],
  ['additionalProperties', readAdditional],
  ['items', readItems],
  ['enum', readEnum],
  ['const', readConst],
  ['anyOf', readAnyOf],
  ['$ref', readRef],
  ['$defs', readDefinitions],
  ['definitions', readDefinitions],
  ['title', readText],
  ['description', readText],
  ['default', readDefault],
  ['minimum', readNumberBound('minimum')],
  ['maximum', readNumberBound('maximum')],
  ['exclusiveMinimum', readNumberBound('exclusiveMinimum')],
  ['exclusiveMaximum', readNumberBound('exclusiveMaximum')],
  ['multipleOf', readMultipleOf],
  ['minLength', readLengthBound('minLength')],
  ['maxLength', readLengthBound('maxLength')],
  ['minItems', readCountBound('minItems')],
  ['maxItems', readCountBound('maxItems')],
  ['pattern', readPatternKeyword],
  ['format', readFormat],
  ['$schema', ignore],
  ['$id', ignore],
  ['$comment', ignore],
  ['examples', ignore],
  ['deprecated', ignore],
])

const REMEDIES: ReadonlyMap<string, string> = new Map([
  ['nullable', 'write type: [..., "null"] instead'],
  ['oneOf', 'write anyOf instead'],
  ['allOf', 'write the rules into one schema instead'],
  ['id', 'write $id instead'],
  ['example', 'write examples instead'],
  ['prefixItems', 'write items with one schema for all items, or an object with a property for each'],
  ['uniqueItems', 'say so in the description instead'],
  ['patternProperties', 'write additionalProperties with one schema for all further properties'],
  ['$anchor', 'refer by a pointer such as #/$defs/name instead'],
  ['$dynamicRef', 'write $ref instead'],
])

/** The text that rejects a keyword and says what to write instead. */
export function remedyFor(keyword: string, known: readonly string[]): string {
  const remedy = REMEDIES.get(keyword)
  if (remedy !== undefined) return `is not supported; ${remedy}`
  const near = known.find((name) => name.toLowerCase() === keyword.toLowerCase())
  if (near !== undefined) return `is not supported; did you mean ${near}?`
  return `is not supported; the keywords are ${known.join(', ')}`
}

function ignore(): void {}

function objectRules(node: SchemaNode): ObjectRules {
  node.object ??= { properties: new Map(), required: [], additional: null }
  return node.object
}

function arrayRules(node: SchemaNode): ArrayRules {
  node.array ??= { items: null, minItems: 0, maxItems: Number.POSITIVE_INFINITY }
  return node.array
}

function stringRules(node: SchemaNode): StringRules {
  node.string ??= { minLength: 0, maxLength: Number.POSITIVE_INFINITY, pattern: null, format: null }
  return node.string
}

function numberRules(node: SchemaNode): NumberRules {
  node.number ??= {
    minimum: Number.NEGATIVE_INFINITY,
    maximum: Number.POSITIVE_INFINITY,
    exclusiveMinimum: null,
    exclusiveMaximum: null,
    multipleOf: null,
  }
  return node.number
}

function finiteNumber(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : reject('must be a number')
}

type NumberBound = 'minimum' | 'maximum' | 'exclusiveMinimum' | 'exclusiveMaximum'

function readNumberBound(keyword: NumberBound): ReadKeyword {
  return (_context, node, value) => {
    // As in the drafts before 6, where it was a flag beside `minimum`.
    if (typeof value === 'boolean') reject('must be a number: the bound itself')
    numberRules(node)[keyword] = finiteNumber(value)
  }
}

function readLengthBound(keyword: 'minLength' | 'maxLength'): ReadKeyword {
  return (_context, node, value) => {
    stringRules(node)[keyword] = nonNegativeInteger(value)
  }
}

function readCountBound(keyword: 'minItems' | 'maxItems'): ReadKeyword {
  return (_context, node, value) => {
    arrayRules(node)[keyword] = nonNegativeInteger(value)
  }
}

function nonNegativeInteger(value: unknown): number {
  const isSize = typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
  return isSize ? value : reject('must be a whole number, 0 or more')
}

function readText(_context: ReadContext, _node: SchemaNode, value: unknown): void {
  if (typeof value !== 'string') reject('must be a string')
}

function readMultipleOf(_context: ReadContext, node: SchemaNode, value: unknown): void {
  const unit = finiteNumber(value)
  numberRules(node).multipleOf = unit > 0 ? unit : reject('must be greater than 0')
}

function readType(_context: ReadContext, node: SchemaNode, value: unknown): void {
  if (typeof value === 'string') {
    node.types = typeBitOf(value)
    return
  }
  if (!Array.isArray(value) || value.length === 0 || value.length > TYPE_NAMES.length) {
    reject(`must be one of ${TYPE_NAMES.join(', ')}, or a list of them`)
  }
  node.types = value.reduce<number>((types, name: unknown) => types | typeBitOf(name), 0)
}

function typeBitOf(name: unknown): number {
  const known = TYPE_NAMES.find((type) => type === name)
  return known === undefined
    ? reject(`must be one of ${TYPE_NAMES.join(', ')}, or a list of them`)
    : typeBit(known)
}

function readMap(context: ReadContext, value: unknown): Map<string, SchemaNode> {
  if (!isObject(value)) return reject('must be an object whose values are schemas')
  const names = Object.keys(value)
  // Before any of them is read, as hundreds of thousands may follow.
  expectParts(context, names.length)
  const nodes = new Map<string, SchemaNode>()
  for (const name of names) {
    context.path.push(name)
    nodes.set(name, context.readNode(context, value[name]))
    context.path.pop()
  }
  return nodes
}

function readProperties(context: ReadContext, node: SchemaNode, value: unknown): void {
  objectRules(node).properties = readMap(context, value)
}

function readDefault(_context: ReadContext, node: SchemaNode, value: unknown): void {
  node.default = { value }
}

function readConst(context: ReadContext, node: SchemaNode, value: unknown): void {
  node.allowed = [...node.allowed, allow(context, 'const', [value])]
}

function readRequired(context: ReadContext, node: SchemaNode, value: unknown): void {
  if (typeof value === 'boolean') {
    reject('must be a list of property names, beside the properties of the object that has them')
  }
  if (!Array.isArray(value)) reject('must be a list of property names')
  countParts(context, value.length)
  const names = new Set<string>()
  for (const name of value as unknown[]) {
    if (typeof name !== 'string') reject('must be a list of property names')
    names.add(name)
  }
  objectRules(node).required = [...names]
}

function readAdditional(context: ReadContext, node: SchemaNode, value: unknown): void {
  objectRules(node).additional = value === true ? null : context.readNode(context, value)
}

function readItems(context: ReadContext, node: SchemaNode, value: unknown): void {
  if (Array.isArray(value)) reject('must be one schema for all items, not a list of schemas')
  arrayRules(node).items = context.readNode(context, value)
}

function readEnum(context: ReadContext, node: SchemaNode, value: unknown): void {
  if (!Array.isArray(value) || value.length === 0) reject('must be a list with at least one value')
  node.allowed = [...node.allowed, allow(context, 'enum', value)]
}

/** Comparing so few values one by one is faster than an index of them. */
const FEW_VALUES = 8

function allow(context: ReadContext, keyword: 'enum' | 'const', values: readonly unknown[]): AllowedValues {
  countParts(context, values.length)
  const nested: unknown[] = []
  for (const value of values) {
    if (typeof value !== 'object' || value === null) continue
    countValues(context, value, 1)
    nested.push(value)
  }
  const index = values.length > FEW_VALUES ? new Set(values) : null
  return { keyword, values, index, nested }
}

/** Bounds the depth and number of values inside an object or array of `enum` or `const`. */
function countValues(context: ReadContext, value: object, depth: number): void {
  if (depth > MAX_SCHEMA_DEPTH) reject(`has values more than ${MAX_SCHEMA_DEPTH} deep`)
  const inside: readonly unknown[] = Array.isArray(value) ? value : Object.values(value)
  countParts(context, inside.length)
  for (const item of inside) {
    if (typeof item === 'object' && item !== null) countValues(context, item, depth + 1)
  }
}

function readAnyOf(context: ReadContext, node: SchemaNode, value: unknown): void {
  if (!Array.isArray(value) || value.length === 0) reject('must be a list with at least one schema')
  expectParts(context, value.length)
  context.inPlace.push({ node, path: [...context.path] })
  node.anyOf = value.map((branch: unknown, index) => {
    context.path.push(index)
    const read = context.readNode(context, branch)
    context.path.pop()
    return read
  })
}

function readRef(context: ReadContext, node: SchemaNode, value: unknown): void {
  if (typeof value !== 'string') reject('must be a string such as #/$defs/name')
  if (value !== '#' && !value.startsWith('#/')) {
    reject(
      `must point into this schema, as # or #/$defs/name do; ${JSON.stringify(truncate(value))} does not`,
    )
  }
  const path = [...context.path]
  context.refs.push({ node, pointer: value, path })
  context.inPlace.push({ node, path })
}

function readDefinitions(context: ReadContext, node: SchemaNode, value: unknown): void {
  const keyword = String(context.path.at(-1))
  const held = context.definitions.get(node) ?? new Map<string, Map<string, SchemaNode>>()
  held.set(keyword, readMap(context, value))
  context.definitions.set(node, held)
}

function readPatternKeyword(context: ReadContext, node: SchemaNode, value: unknown): void {
  if (typeof value !== 'string') reject('must be a string: a regular expression')
  const read = readPattern(value)
  if (!read.ok) reject(read.rule)
  context.patternsSize += read.size
  if (context.patternsSize > MAX_PATTERNS_SIZE) {
    reject(`takes the patterns of the schema over ${MAX_PATTERNS_SIZE} parts, repetitions written out`)
  }
  stringRules(node).pattern = { text: value, tree: read.tree, program: null }
}

/** Rejects an unknown format rather than ignoring it: nothing that a caller meant is dropped silently. */
function readFormat(_context: ReadContext, node: SchemaNode, value: unknown): void {
  if (typeof value !== 'string') reject('must be a string')
  if (!isFormatName(value)) {
    reject(`must be one of ${FORMAT_NAMES.join(', ')}; for other forms of text write a pattern`)
  }
  stringRules(node).format = value
}
