/** The state of one reading of a schema, and how it ends early. */
import type { SchemaNode } from './answer-schema.ts'
import { MAX_SCHEMA_PARTS } from './limits.ts'

export interface SchemaReading {
  /** Where the reading stands: pushed and popped on the way, so that it costs nothing until something is refused. */
  path: (string | number)[]
  depth: number
  /** See MAX_SCHEMA_PARTS. */
  parts: number
  patternsSize: number
  /** References still to be resolved, each with the path of its keyword. */
  readonly refs: { readonly node: SchemaNode; readonly pointer: string; readonly path: (string | number)[] }[]
  /** Nodes with `$ref` or `anyOf`: schemas that put other schemas on the same value. */
  readonly jumps: { readonly node: SchemaNode; readonly path: (string | number)[] }[]
  /** `$defs` and `definitions` by the node that holds them. */
  readonly definitions: Map<SchemaNode, Map<string, Map<string, SchemaNode>>>
  /** The reader of subschemas, passed along so that the keywords need not import it. */
  readonly readNode: (reading: SchemaReading, value: unknown) => SchemaNode
}

/** Caught by `readSchema`, which adds the path. */
export class SchemaRefused extends Error {}

export function refuse(rule: string): never {
  throw new SchemaRefused(rule)
}

export function countParts(reading: SchemaReading, count: number): void {
  expectParts(reading, count)
  reading.parts += count
}

/** Refuses what will be too much once it is counted. */
export function expectParts(reading: SchemaReading, count: number): void {
  if (reading.parts + count > MAX_SCHEMA_PARTS) {
    refuse(`takes the schema over ${MAX_SCHEMA_PARTS} parts (subschemas, required names and enum values)`)
  }
}

/** A caller's text cut to what an error message can bear. */
export function clip(text: string): string {
  return text.length <= 80 ? text : `${text.slice(0, 79)}…`
}
