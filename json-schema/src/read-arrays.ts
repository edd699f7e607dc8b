/** Reads the keywords for arrays. */
import type { ArrayRules, SchemaNode, SchemaSource } from './answer-schema.ts'
import {
  ignoreKeyword,
  type ReadContext,
  type ReadKeyword,
  readSchemas,
  readSize,
  reject,
} from './read-context.ts'

export const ARRAY_KEYWORDS: readonly (readonly [string, ReadKeyword])[] = [
  ['items', readItems],
  ['prefixItems', readPrefixItems],
  ['additionalItems', readAdditionalItems],
  ['minItems', readCountBound('minItems')],
  ['maxItems', readCountBound('maxItems')],
  ['contains', readContains],
  ['minContains', readContainsBound('minContains')],
  ['maxContains', readContainsBound('maxContains')],
  ['uniqueItems', readUniqueItems],
]

function arrayRules(node: SchemaNode): ArrayRules {
  node.array ??= {
    prefixItems: [],
    items: null,
    minItems: 0,
    maxItems: Number.POSITIVE_INFINITY,
    contains: null,
    minContains: 1,
    maxContains: Number.POSITIVE_INFINITY,
    uniqueItems: false,
  }
  return node.array
}

/** A list in `items` has the meaning that `prefixItems` has since draft 2020-12. */
function readItems(context: ReadContext, node: SchemaNode, value: unknown, source: SchemaSource): void {
  if (!Array.isArray(value)) arrayRules(node).items = context.readNode(context, value)
  else if (source.prefixItems !== undefined) reject('must be one schema for all items after prefixItems')
  else arrayRules(node).prefixItems = readSchemas(context, value)
}

function readPrefixItems(context: ReadContext, node: SchemaNode, value: unknown): void {
  arrayRules(node).prefixItems = readSchemas(context, value)
}

/** `additionalItems` has an effect only if `items` is a list. */
function readAdditionalItems(
  context: ReadContext,
  node: SchemaNode,
  value: unknown,
  source: SchemaSource,
): void {
  const read = context.readNode(context, value)
  if (Array.isArray(source.items)) arrayRules(node).items = read
  else ignoreKeyword(context)
}

function readCountBound(keyword: 'minItems' | 'maxItems'): ReadKeyword {
  return (_context, node, value) => {
    arrayRules(node)[keyword] = readSize(value)
  }
}

function readContains(context: ReadContext, node: SchemaNode, value: unknown): void {
  arrayRules(node).contains = context.readNode(context, value)
}

function readContainsBound(keyword: 'minContains' | 'maxContains'): ReadKeyword {
  return (context, node, value, source) => {
    arrayRules(node)[keyword] = readSize(value)
    if (source.contains === undefined) ignoreKeyword(context)
  }
}

function readUniqueItems(_context: ReadContext, node: SchemaNode, value: unknown): void {
  arrayRules(node).uniqueItems = typeof value === 'boolean' ? value : reject('must be true or false')
}
