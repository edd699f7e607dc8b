/** The state of reading one schema: its draft, the current path, the counts, and the functions that reject it. */
import { isObject, type SchemaNode, type SchemaSource } from './answer-schema.ts'
import { MAX_IGNORED, MAX_IGNORED_LENGTH, MAX_SCHEMA_PARTS } from './limits.ts'

export type Path = (string | number)[]

export interface ReadContext {
  readonly source: SchemaSource
  readonly dialect: Dialect
  /** The current path. It is pushed and popped, so that it costs nothing until something is rejected. */
  path: Path
  depth: number
  /** Counts against MAX_SCHEMA_PARTS. */
  parts: number
  patternsSize: number
  /** Unresolved references, each with the path of its keyword. */
  readonly refs: { readonly node: SchemaNode; readonly ref: string; readonly path: Path }[]
  /** Nodes that apply other schemas to the same value ("in place" in terms of JSON Schema). */
  readonly inPlace: { readonly node: SchemaNode; readonly path: Path }[]
  /** The node of each subschema, for references to it. */
  readonly nodes: Map<SchemaSource, SchemaNode>
  /** Subschemas by the name that `$anchor` gives them. */
  readonly anchors: Map<string, SchemaNode>
  /** Definitions by the name in their `$id`: see `isNamedDefinition`. */
  readonly named: Map<string, SchemaNode>
  /** The path of an `$id` that is ignored, provided that no reference is an address. */
  ignoredId: Path | null
  readonly ignored: { readonly pointers: string[]; more: number }
  /** The reader of subschemas, passed along so that the keywords need not import it. */
  readonly readNode: (context: ReadContext, value: unknown) => SchemaNode
}

/** Reads one keyword's value into the node, or rejects it. `context.path` already ends in the keyword. */
export type ReadKeyword = (
  context: ReadContext,
  node: SchemaNode,
  value: unknown,
  /** The subschema that has the keyword. */
  source: SchemaSource,
) => void

/** Caught by `readSchema`, which adds the path. */
export class SchemaRejected extends Error {}

export function reject(rule: string): never {
  throw new SchemaRejected(rule)
}

export function countParts(context: ReadContext, count: number): void {
  expectParts(context, count)
  context.parts += count
}

/** Rejects the schema if this many further parts would be too many, before any of them is read. */
function expectParts(context: ReadContext, count: number): void {
  if (context.parts + count > MAX_SCHEMA_PARTS) {
    reject(`makes the schema exceed ${MAX_SCHEMA_PARTS} parts (subschemas, required names and enum values)`)
  }
}

/** Lists the keyword at `context.path` as accepted but not enforced. */
export function ignoreKeyword(context: ReadContext): void {
  const { path, ignored } = context
  countParts(context, 1)
  if (ignored.pointers.length < MAX_IGNORED) {
    const pointer = path.map((key) => `/${String(key).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
    if (pointer.length <= MAX_IGNORED_LENGTH) {
      ignored.pointers.push(pointer)
      return
    }
  }
  ignored.more++
}

/** Reads a subschema that is the value of a keyword's own key, such as a property or a branch. */
export function readInside(context: ReadContext, key: string | number, value: unknown): SchemaNode {
  context.path.push(key)
  const node = context.readNode(context, value)
  context.path.pop()
  return node
}

/** Reads a list of schemas. Unlike in JSON Schema it may be empty, because generators write that for an empty tuple or union. */
export function readSchemas(context: ReadContext, value: unknown): SchemaNode[] {
  if (!Array.isArray(value)) reject('must be a list of schemas')
  expectParts(context, value.length)
  return value.map((schema: unknown, index) => readInside(context, index, schema))
}

export function readSchemaMap(context: ReadContext, value: unknown): Map<string, SchemaNode> {
  if (!isObject(value)) return reject('must be an object whose values are schemas')
  const names = Object.keys(value)
  // The count comes before any of them is read, because there may be hundreds of thousands.
  expectParts(context, names.length)
  const nodes = new Map<string, SchemaNode>()
  for (const name of names) nodes.set(name, readInside(context, name, value[name]))
  return nodes
}

export function readNames(context: ReadContext, value: unknown): string[] {
  if (!Array.isArray(value)) reject('must be a list of property names')
  countParts(context, value.length)
  const names = new Set<string>()
  for (const name of value as unknown[]) {
    if (typeof name !== 'string') reject('must be a list of property names')
    names.add(name)
  }
  return [...names]
}

export function readSize(value: unknown): number {
  const isSize = typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
  return isSize ? value : reject('must be a non-negative integer')
}

/** Records that the node at `context.path` applies other schemas to the same value. */
export function noteInPlace(context: ReadContext, node: SchemaNode): void {
  context.inPlace.push({ node, path: [...context.path] })
}

interface Dialect {
  /** Up to draft-07, keywords next to a `$ref` have no effect. */
  readonly refStandsAlone: boolean
  /** The keyword that gives a schema an address: `id` in draft-04. */
  readonly idKeyword: '$id' | 'id'
  /** Whether `$schema` is missing or names a draft. With any other, the schema is read as the newest draft. */
  readonly isKnown: boolean
}

const DRAFT = /^https?:\/\/json-schema\.org\/(?:draft-0([34567])\/|draft\/(?:2019-09|2020-12)\/)?schema#?$/

/** Returns the newest draft if there is no `$schema`. Every draft also accepts the spellings of older ones. */
export function dialectOf({ $schema }: SchemaSource): Dialect {
  const named = typeof $schema === 'string' ? DRAFT.exec($schema) : null
  const old = named?.[1]
  return {
    refStandsAlone: old !== undefined,
    idKeyword: old === '3' || old === '4' ? 'id' : '$id',
    isKnown: $schema === undefined || named !== null,
  }
}
