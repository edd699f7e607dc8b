/** What the reading of one schema carries along: where it is, what it has counted, and how it rejects the schema. */
import type { SchemaNode } from './answer-schema.ts'
import { MAX_SCHEMA_PARTS } from './limits.ts'

type Path = (string | number)[]

export interface ReadContext {
  /** Pushed and popped on the way, so that it costs nothing until something is rejected. */
  path: Path
  depth: number
  /** See MAX_SCHEMA_PARTS. */
  parts: number
  patternsSize: number
  /** References still to be resolved, each with the path of its keyword. */
  readonly refs: { readonly node: SchemaNode; readonly pointer: string; readonly path: Path }[]
  /** Nodes with `$ref` or `anyOf`, which apply other schemas to the same value ("in place", as JSON Schema says). */
  readonly inPlace: { readonly node: SchemaNode; readonly path: Path }[]
  /** `$defs` and `definitions` by the node that holds them. */
  readonly definitions: Map<SchemaNode, Map<string, Map<string, SchemaNode>>>
  /** The reader of subschemas, passed along so that the keywords need not import it. */
  readonly readNode: (context: ReadContext, value: unknown) => SchemaNode
}

/** Caught by `readSchema`, which adds the path. */
export class SchemaRejected extends Error {}

export function reject(rule: string): never {
  throw new SchemaRejected(rule)
}

export function countParts(context: ReadContext, count: number): void {
  expectParts(context, count)
  context.parts += count
}

/** Rejects the schema if so many more parts would be too many, before any of them is read. */
export function expectParts(context: ReadContext, count: number): void {
  if (context.parts + count > MAX_SCHEMA_PARTS) {
    reject(`takes the schema over ${MAX_SCHEMA_PARTS} parts (subschemas, required names and enum values)`)
  }
}
