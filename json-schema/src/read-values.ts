/** Reads the keywords for types, `enum` and `const`, and those for numbers and strings. */
import type { AllowedValues, NumberRules, Pattern, SchemaNode, StringRules } from './answer-schema.ts'
import { TYPE_NAMES, typeBit } from './answer-schema.ts'
import { MAX_PATTERNS_SIZE, MAX_SCHEMA_DEPTH } from './limits.ts'
import { readPattern } from './patterns/read-pattern.ts'
import {
  countParts,
  ignoreKeyword,
  type ReadContext,
  type ReadKeyword,
  readSize,
  reject,
} from './read-context.ts'
import { isFormatName } from './string-formats.ts'

export const VALUE_KEYWORDS: readonly (readonly [string, ReadKeyword])[] = [
  ['type', readType],
  ['nullable', readNullable],
  ['enum', readEnum],
  ['const', readConst],
  ['default', readDefault],
  ['minimum', readNumberBound('minimum')],
  ['maximum', readNumberBound('maximum')],
  ['exclusiveMinimum', readExclusiveBound('exclusiveMinimum', 'minimum')],
  ['exclusiveMaximum', readExclusiveBound('exclusiveMaximum', 'maximum')],
  ['multipleOf', readMultipleOf],
  ['minLength', readLengthBound('minLength')],
  ['maxLength', readLengthBound('maxLength')],
  ['pattern', readPatternKeyword],
  ['format', readFormat],
]

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

function readNullable(_context: ReadContext, node: SchemaNode, value: unknown): void {
  node.nullable = typeof value === 'boolean' ? value : reject('must be true or false')
}

function readDefault(_context: ReadContext, node: SchemaNode, value: unknown): void {
  node.default = { value }
}

function readConst(context: ReadContext, node: SchemaNode, value: unknown): void {
  node.allowed = [...node.allowed, allow(context, 'const', [value])]
}

function readEnum(context: ReadContext, node: SchemaNode, value: unknown): void {
  // An empty list accepts no value. Generators write it for an enumeration from which all values were excluded.
  if (!Array.isArray(value)) reject('must be a list of values')
  node.allowed = [...node.allowed, allow(context, 'enum', value)]
}

/** Up to this many values have no index, because a linear search is faster. */
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

/** Limits the depth and number of values in an object or array of `enum` or `const`. */
function countValues(context: ReadContext, value: object, depth: number): void {
  if (depth > MAX_SCHEMA_DEPTH) reject(`has values more than ${MAX_SCHEMA_DEPTH} deep`)
  const inside: readonly unknown[] = Array.isArray(value) ? value : Object.values(value)
  countParts(context, inside.length)
  for (const item of inside) {
    if (typeof item === 'object' && item !== null) countValues(context, item, depth + 1)
  }
}

function finiteNumber(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : reject('must be a number')
}

function readNumberBound(keyword: 'minimum' | 'maximum'): ReadKeyword {
  return (_context, node, value) => {
    numberRules(node)[keyword] = finiteNumber(value)
  }
}

/** In draft-04, `exclusiveMinimum` and `exclusiveMaximum` are flags that make the other bound exclusive. */
function readExclusiveBound(
  keyword: 'exclusiveMinimum' | 'exclusiveMaximum',
  bound: 'minimum' | 'maximum',
): ReadKeyword {
  return (_context, node, value, source) => {
    if (typeof value !== 'boolean') numberRules(node)[keyword] = finiteNumber(value)
    else if (source[bound] === undefined) reject(`must be a number, or true or false next to ${bound}`)
    else if (value) numberRules(node)[keyword] = finiteNumber(source[bound])
  }
}

function readMultipleOf(_context: ReadContext, node: SchemaNode, value: unknown): void {
  const unit = finiteNumber(value)
  numberRules(node).multipleOf = unit > 0 ? unit : reject('must be greater than 0')
}

function readLengthBound(keyword: 'minLength' | 'maxLength'): ReadKeyword {
  return (_context, node, value) => {
    stringRules(node)[keyword] = readSize(value)
  }
}

export function readPatternText(context: ReadContext, text: string): Pattern {
  const read = readPattern(text)
  if (!read.ok) return reject(read.rule)
  context.patternsSize += read.size
  if (context.patternsSize > MAX_PATTERNS_SIZE) {
    reject(`makes the patterns of the schema exceed ${MAX_PATTERNS_SIZE} parts, with repetitions expanded`)
  }
  return { text, tree: read.tree, size: read.size, program: null }
}

/** Generators add patterns to known formats. An unsupported pattern is ignored if the format is checked. */
function readPatternKeyword(
  context: ReadContext,
  node: SchemaNode,
  value: unknown,
  { format }: { readonly format?: unknown },
): void {
  if (typeof value !== 'string') reject('must be a string: a regular expression')
  const isFormatChecked = typeof format === 'string' && isFormatName(format)
  if (isFormatChecked && LOOKS_AROUND.test(value)) ignoreKeyword(context)
  else stringRules(node).pattern = readPatternText(context, value)
}

const LOOKS_AROUND = /\(\?<?[=!]/

/** JSON Schema specifies that a format that is not checked is an annotation. */
function readFormat(context: ReadContext, node: SchemaNode, value: unknown): void {
  if (typeof value !== 'string') reject('must be a string')
  if (isFormatName(value)) stringRules(node).format = value
  else ignoreKeyword(context)
}
