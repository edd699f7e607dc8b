/** Reads the keywords for objects. */
import type { ObjectRules, SchemaNode } from './answer-schema.ts'
import { isObject } from './answer-schema.ts'
import {
  countParts,
  noteInPlace,
  type ReadContext,
  type ReadKeyword,
  readInside,
  readNames,
  readSchemaMap,
  readSize,
  reject,
} from './read-context.ts'
import { readPatternText } from './read-values.ts'

export const OBJECT_KEYWORDS: readonly (readonly [string, ReadKeyword])[] = [
  ['properties', readProperties],
  ['patternProperties', readPatternProperties],
  ['required', readRequired],
  ['additionalProperties', readAdditional],
  ['propertyNames', readPropertyNames],
  ['minProperties', readCountBound('minProperties')],
  ['maxProperties', readCountBound('maxProperties')],
  ['dependentRequired', readDependentRequired],
  ['dependentSchemas', readDependentSchemas],
  ['dependencies', readDependencies],
]

function objectRules(node: SchemaNode): ObjectRules {
  node.object ??= {
    properties: new Map(),
    patternProperties: [],
    required: [],
    additional: null,
    propertyNames: null,
    minProperties: 0,
    maxProperties: Number.POSITIVE_INFINITY,
    dependentRequired: [],
    dependentSchemas: [],
  }
  return node.object
}

function readProperties(context: ReadContext, node: SchemaNode, value: unknown): void {
  objectRules(node).properties = readSchemaMap(context, value)
}

function readPatternProperties(context: ReadContext, node: SchemaNode, value: unknown): void {
  const nodes = readSchemaMap(context, value)
  objectRules(node).patternProperties = [...nodes].map(([text, inside]) => {
    context.path.push(text)
    const pattern = readPatternText(context, text)
    context.path.pop()
    return { pattern, node: inside }
  })
}

function readRequired(context: ReadContext, node: SchemaNode, value: unknown): void {
  if (typeof value === 'boolean') {
    reject('must be a list of property names, in the same schema as those properties')
  }
  objectRules(node).required = readNames(context, value)
}

function readAdditional(context: ReadContext, node: SchemaNode, value: unknown): void {
  objectRules(node).additional = value === true ? null : context.readNode(context, value)
}

function readPropertyNames(context: ReadContext, node: SchemaNode, value: unknown): void {
  objectRules(node).propertyNames = context.readNode(context, value)
}

function readCountBound(keyword: 'minProperties' | 'maxProperties'): ReadKeyword {
  return (_context, node, value) => {
    objectRules(node)[keyword] = readSize(value)
  }
}

function readDependentRequired(context: ReadContext, node: SchemaNode, value: unknown): void {
  for (const [name, names] of dependents(context, value)) addRequired(context, node, name, names)
}

function readDependentSchemas(context: ReadContext, node: SchemaNode, value: unknown): void {
  noteInPlace(context, node)
  for (const [name, schema] of dependents(context, value)) addSchema(context, node, name, schema)
}

/** Up to draft-07, `dependencies` stands for `dependentRequired` and `dependentSchemas`. */
function readDependencies(context: ReadContext, node: SchemaNode, value: unknown): void {
  noteInPlace(context, node)
  for (const [name, dependent] of dependents(context, value)) {
    if (Array.isArray(dependent)) addRequired(context, node, name, dependent)
    else addSchema(context, node, name, dependent)
  }
}

function dependents(context: ReadContext, value: unknown): [string, unknown][] {
  if (!isObject(value)) return reject('must be an object whose keys are property names')
  const names = Object.keys(value)
  countParts(context, names.length)
  return names.map((name) => [name, value[name]])
}

function addRequired(context: ReadContext, node: SchemaNode, name: string, names: unknown): void {
  context.path.push(name)
  objectRules(node).dependentRequired.push({ name, names: readNames(context, names) })
  context.path.pop()
}

function addSchema(context: ReadContext, node: SchemaNode, name: string, schema: unknown): void {
  objectRules(node).dependentSchemas.push({ name, node: readInside(context, name, schema) })
}
