/**
 * Holds the state while a schema is being read: its draft, the current path and the counts. Also has the functions that reject
 * the schema.
 */
import { isObject, type SchemaNode, type SchemaSource } from './answer-schema.ts'
import { MAX_IGNORED, MAX_IGNORED_LENGTH, MAX_SCHEMA_PARTS } from './limits.ts'

export type Path = (string | number)[]

export interface ReadContext {
  readonly source: SchemaSource
  readonly dialect: Dialect
  /** Keys are pushed and popped. The path becomes a text only if something is rejected. */
  path: Path
  depth: number
  /** Counts the parts of the schema that MAX_SCHEMA_PARTS limits. */
  parts: number
  patternsSize: number
  readonly refs: { readonly node: SchemaNode; readonly ref: string; readonly path: Path }[]
  readonly inPlace: { readonly node: SchemaNode; readonly path: Path }[]
  readonly nodes: Map<SchemaSource, SchemaNode>
  readonly anchors: Map<string, SchemaNode>
  /** Maps the name in an `$id` to its definition. `isNamedDefinition` explains which names count. */
  readonly named: Map<string, SchemaNode>
  /** An `$id` at this path was ignored. If a reference turns out to be an address, the `$id` is rejected after all. */
  ignoredId: Path | null
  readonly ignored: { readonly pointers: string[]; more: number }
  /** The function is passed along, because importing it would create an import cycle. */
  readonly readNode: (context: ReadContext, value: unknown) => SchemaNode
}

/** Reads the value of a keyword into the node, or rejects it. `context.path` must end with the keyword. */
export type ReadKeyword = (
  context: ReadContext,
  node: SchemaNode,
  value: unknown,
  source: SchemaSource,
) => void

/** Thrown by `reject`. `readSchema` catches it and adds the path. */
export class SchemaRejected extends Error {}

export function reject(rule: string): never {
  throw new SchemaRejected(rule)
}

export function countParts(context: ReadContext, count: number): void {
  expectParts(context, count)
  context.parts += count
}

/** The parts are counted before any of them is read, because there may be hundreds of thousands. */
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

/** `key` is in the keyword's value, for example the name of a property or the index of a branch. */
export function readInside(context: ReadContext, key: string | number, value: unknown): SchemaNode {
  context.path.push(key)
  const node = context.readNode(context, value)
  context.path.pop()
  return node
}

/** JSON Schema forbids an empty list. It is accepted, because generators write it for an empty tuple or union. */
export function readSchemas(context: ReadContext, value: unknown): SchemaNode[] {
  if (!Array.isArray(value)) reject('must be a list of schemas')
  expectParts(context, value.length)
  return value.map((schema: unknown, index) => readInside(context, index, schema))
}

export function readSchemaMap(context: ReadContext, value: unknown): Map<string, SchemaNode> {
  if (!isObject(value)) return reject('must be an object whose values are schemas')
  const names = Object.keys(value)
  // The schemas are counted before any of them is read, because there may be hundreds of thousands.
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
  /** Up to draft-07, keywords next to `$ref` have no effect. */
  readonly refStandsAlone: boolean
  /** This keyword gives a schema an address. Up to draft-04, it is `id`. */
  readonly idKeyword: '$id' | 'id'
  /** A missing `$schema` counts as known. With an unknown value, the schema is read as the newest draft. */
  readonly isKnown: boolean
}

const DRAFT = /^https?:\/\/json-schema\.org\/(?:draft-0([34567])\/|draft\/(?:2019-09|2020-12)\/)?schema#?$/

/** Without `$schema`, the newest draft applies. Every draft also accepts the keywords of older drafts. */
export function dialectOf({ $schema }: SchemaSource): Dialect {
  const named = typeof $schema === 'string' ? DRAFT.exec($schema) : null
  const old = named?.[1]
  return {
    refStandsAlone: old !== undefined,
    idKeyword: old === '3' || old === '4' ? 'id' : '$id',
    isKnown: $schema === undefined || named !== null,
  }
}
