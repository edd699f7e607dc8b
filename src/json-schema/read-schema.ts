/**
 * Reads a caller's JSON schema into the form that answers are checked with, or says which keyword is at fault and
 * what to write instead. Time is bounded by the limits, not by the size of what is sent.
 */
import type { AnswerSchema, SchemaNode, SchemaSource } from './answer-schema.ts'
import { ALL_TYPES, isObject, newNode } from './answer-schema.ts'
import { MAX_SCHEMA_DEPTH } from './limits.ts'
import { KEYWORDS, remedyFor } from './read-keywords.ts'
import { resolveRefs } from './resolve-refs.ts'
import { clip, countParts, refuse, type SchemaReading, SchemaRefused } from './read-context.ts'

/** `path` is like `schema.properties.age.minimum`; `rule` completes a sentence that begins with it. */
export type ReadSchema =
  | { readonly ok: true; readonly schema: AnswerSchema }
  | { readonly ok: false; readonly path: string; readonly rule: string }

/**
 * Never throws. The schema keeps references into `value`, which must be parsed JSON and must not change any more.
 * Supported is what OpenAI's structured outputs know (docs/decisions.md lists the keywords); everything else is refused.
 */
export function readSchema(value: unknown): ReadSchema {
  const reading: SchemaReading = {
    path: [],
    depth: 0,
    parts: 0,
    patternsSize: 0,
    refs: [],
    jumps: [],
    definitions: new Map(),
    readNode,
  }
  try {
    if (!isObject(value)) return { ok: false, path: 'schema', rule: 'must be an object' }
    const root = readNode(reading, value)
    resolveRefs(reading, root)
    return { ok: true, schema: { root, source: value } }
  } catch (error) {
    if (error instanceof SchemaRefused)
      return { ok: false, path: pathText(reading.path), rule: error.message }
    throw error
  }
}

function readNode(reading: SchemaReading, value: unknown): SchemaNode {
  countParts(reading, 1)
  if (typeof value === 'boolean') return newNode(value ? ALL_TYPES : 0)
  if (!isObject(value)) return refuse('must be a schema: an object, true or false')
  if (reading.depth >= MAX_SCHEMA_DEPTH) return refuse(`is nested more than ${MAX_SCHEMA_DEPTH} schemas deep`)
  reading.depth++
  const node = newNode(ALL_TYPES)
  for (const keyword in value) readKeyword(reading, node, keyword, value)
  reading.depth--
  return node
}

function readKeyword(reading: SchemaReading, node: SchemaNode, keyword: string, source: SchemaSource): void {
  // `for … in` would walk a prototype too; parsed JSON has none of interest.
  if (!Object.hasOwn(source, keyword)) return
  reading.path.push(keyword)
  const read = KEYWORDS.get(keyword)
  if (read === undefined) refuse(remedyFor(keyword, [...KEYWORDS.keys()]))
  else read(reading, node, source[keyword])
  reading.path.pop()
}

/** Names that are no identifiers stand in brackets and quotes; long ones are cut. */
function pathText(path: readonly (string | number)[]): string {
  let text = 'schema'
  for (const key of path) {
    if (typeof key === 'number') text += `[${key}]`
    else if (/^[A-Za-z_$][\w$-]{0,79}$/.test(key)) text += `.${key}`
    else text += `[${JSON.stringify(clip(key))}]`
  }
  return text
}
