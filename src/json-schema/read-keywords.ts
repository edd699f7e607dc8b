/** How each keyword of a caller's schema is read: one function each, and a remedy for those that are refused. */
import type {
  AllowedValues,
  ArrayRules,
  NumberRules,
  ObjectRules,
  SchemaNode,
  StringRules,
} from './answer-schema.ts'
import { isObject, TYPE_NAMES, typeBit } from './answer-schema.ts'
import { MAX_PATTERNS_SIZE, MAX_SCHEMA_DEPTH } from './limits.ts'
import { readPattern } from './patterns/read-pattern.ts'
import { clip, countParts, expectParts, refuse, type SchemaReading } from './read-context.ts'
import { FORMAT_NAMES, isFormatName } from './string-formats.ts'

/** Puts one keyword's value into the node, or refuses it. `reading.path` already ends in the keyword. */
type ReadKeyword = (reading: SchemaReading, node: SchemaNode, value: unknown) => void

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

/** Says that a keyword is not supported, and what to write instead. */
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

function finite(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : refuse('must be a number')
}

type NumberBound = 'minimum' | 'maximum' | 'exclusiveMinimum' | 'exclusiveMaximum'

function readNumberBound(keyword: NumberBound): ReadKeyword {
  return (_reading, node, value) => {
    // As in the drafts before 6, where it was a flag beside `minimum`.
    if (typeof value === 'boolean') refuse('must be a number: the bound itself')
    numberRules(node)[keyword] = finite(value)
  }
}

function readLengthBound(keyword: 'minLength' | 'maxLength'): ReadKeyword {
  return (_reading, node, value) => {
    stringRules(node)[keyword] = size(value)
  }
}

function readCountBound(keyword: 'minItems' | 'maxItems'): ReadKeyword {
  return (_reading, node, value) => {
    arrayRules(node)[keyword] = size(value)
  }
}

function size(value: unknown): number {
  const isSize = typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
  return isSize ? value : refuse('must be a whole number, 0 or more')
}

function readText(_reading: SchemaReading, _node: SchemaNode, value: unknown): void {
  if (typeof value !== 'string') refuse('must be a string')
}

function readMultipleOf(_reading: SchemaReading, node: SchemaNode, value: unknown): void {
  const unit = finite(value)
  numberRules(node).multipleOf = unit > 0 ? unit : refuse('must be greater than 0')
}

function readType(_reading: SchemaReading, node: SchemaNode, value: unknown): void {
  if (typeof value === 'string') {
    node.types = bitOf(value)
    return
  }
  if (!Array.isArray(value) || value.length === 0 || value.length > TYPE_NAMES.length) {
    refuse(`must be one of ${TYPE_NAMES.join(', ')}, or a list of them`)
  }
  node.types = value.reduce<number>((types, name: unknown) => types | bitOf(name), 0)
}

function bitOf(name: unknown): number {
  const known = TYPE_NAMES.find((type) => type === name)
  return known === undefined
    ? refuse(`must be one of ${TYPE_NAMES.join(', ')}, or a list of them`)
    : typeBit(known)
}

function readMap(reading: SchemaReading, value: unknown): Map<string, SchemaNode> {
  if (!isObject(value)) return refuse('must be an object whose values are schemas')
  const names = Object.keys(value)
  // Before any of them is read, as hundreds of thousands may follow.
  expectParts(reading, names.length)
  const nodes = new Map<string, SchemaNode>()
  for (const name of names) {
    reading.path.push(name)
    nodes.set(name, reading.readNode(reading, value[name]))
    reading.path.pop()
  }
  return nodes
}

function readProperties(reading: SchemaReading, node: SchemaNode, value: unknown): void {
  objectRules(node).properties = readMap(reading, value)
}

function readDefault(_reading: SchemaReading, node: SchemaNode, value: unknown): void {
  node.default = { value }
}

function readConst(reading: SchemaReading, node: SchemaNode, value: unknown): void {
  node.allowed = [...node.allowed, allow(reading, 'const', [value])]
}

function readRequired(reading: SchemaReading, node: SchemaNode, value: unknown): void {
  if (typeof value === 'boolean') {
    refuse('must be a list of property names, beside the properties of the object that has them')
  }
  if (!Array.isArray(value)) refuse('must be a list of property names')
  countParts(reading, value.length)
  const names = new Set<string>()
  for (const name of value as unknown[]) {
    if (typeof name !== 'string') refuse('must be a list of property names')
    names.add(name)
  }
  objectRules(node).required = [...names]
}

function readAdditional(reading: SchemaReading, node: SchemaNode, value: unknown): void {
  objectRules(node).additional = value === true ? null : reading.readNode(reading, value)
}

function readItems(reading: SchemaReading, node: SchemaNode, value: unknown): void {
  if (Array.isArray(value)) refuse('must be one schema for all items, not a list of schemas')
  arrayRules(node).items = reading.readNode(reading, value)
}

function readEnum(reading: SchemaReading, node: SchemaNode, value: unknown): void {
  if (!Array.isArray(value) || value.length === 0) refuse('must be a list with at least one value')
  node.allowed = [...node.allowed, allow(reading, 'enum', value)]
}

/** So many values are compared one by one sooner than an index of them is made. */
const FEW_VALUES = 8

function allow(reading: SchemaReading, keyword: 'enum' | 'const', values: readonly unknown[]): AllowedValues {
  countParts(reading, values.length)
  const nested: unknown[] = []
  for (const value of values) {
    if (typeof value !== 'object' || value === null) continue
    countValues(reading, value, 1)
    nested.push(value)
  }
  const index = values.length > FEW_VALUES ? new Set(values) : null
  return { keyword, values, index, nested }
}

/** Bounds the depth and number of values inside an object or array of `enum` or `const`. */
function countValues(reading: SchemaReading, value: object, depth: number): void {
  if (depth > MAX_SCHEMA_DEPTH) refuse(`has values more than ${MAX_SCHEMA_DEPTH} deep`)
  const inside: readonly unknown[] = Array.isArray(value) ? value : Object.values(value)
  countParts(reading, inside.length)
  for (const item of inside) {
    if (typeof item === 'object' && item !== null) countValues(reading, item, depth + 1)
  }
}

function readAnyOf(reading: SchemaReading, node: SchemaNode, value: unknown): void {
  if (!Array.isArray(value) || value.length === 0) refuse('must be a list with at least one schema')
  expectParts(reading, value.length)
  reading.jumps.push({ node, path: [...reading.path] })
  node.anyOf = value.map((branch: unknown, index) => {
    reading.path.push(index)
    const read = reading.readNode(reading, branch)
    reading.path.pop()
    return read
  })
}

function readRef(reading: SchemaReading, node: SchemaNode, value: unknown): void {
  if (typeof value !== 'string') refuse('must be a string such as #/$defs/name')
  if (value !== '#' && !value.startsWith('#/')) {
    refuse(`must point into this schema, as # or #/$defs/name do; ${JSON.stringify(clip(value))} does not`)
  }
  const path = [...reading.path]
  reading.refs.push({ node, pointer: value, path })
  reading.jumps.push({ node, path })
}

function readDefinitions(reading: SchemaReading, node: SchemaNode, value: unknown): void {
  const keyword = String(reading.path.at(-1))
  const held = reading.definitions.get(node) ?? new Map<string, Map<string, SchemaNode>>()
  held.set(keyword, readMap(reading, value))
  reading.definitions.set(node, held)
}

function readPatternKeyword(reading: SchemaReading, node: SchemaNode, value: unknown): void {
  if (typeof value !== 'string') refuse('must be a string: a regular expression')
  const read = readPattern(value)
  if (!read.ok) refuse(read.rule)
  reading.patternsSize += read.size
  if (reading.patternsSize > MAX_PATTERNS_SIZE) {
    refuse(`takes the patterns of the schema over ${MAX_PATTERNS_SIZE} parts, repetitions written out`)
  }
  stringRules(node).pattern = { text: value, tree: read.tree, program: null }
}

/** An unknown format is refused rather than ignored: nothing that a caller meant is dropped in silence. */
function readFormat(_reading: SchemaReading, node: SchemaNode, value: unknown): void {
  if (typeof value !== 'string') refuse('must be a string')
  if (!isFormatName(value)) {
    refuse(`must be one of ${FORMAT_NAMES.join(', ')}; for other forms of text write a pattern`)
  }
  stringRules(node).format = value
}
