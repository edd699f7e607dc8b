/**
 * Reads a caller's JSON schema into the form that answers are checked with, or names the keyword that is wrong and what
 * to write instead. The limits bound the time, not the size of what is sent.
 */
import type { AnswerSchema, SchemaNode, SchemaSource } from './answer-schema.ts'
import { ALL_TYPES, isObject, newNode } from './answer-schema.ts'
import { schemaPath } from './error-text.ts'
import { MAX_SCHEMA_DEPTH } from './limits.ts'
import { countParts, type ReadContext, reject, SchemaRejected } from './read-context.ts'
import { KEYWORDS, remedyFor } from './read-keywords.ts'
import { resolveRefs } from './resolve-refs.ts'

/** `path` is like `schema.properties.age.minimum`; `rule` completes a sentence that begins with it. */
export type ReadSchemaResult =
  | { readonly ok: true; readonly schema: AnswerSchema }
  | { readonly ok: false; readonly path: string; readonly rule: string }

/**
 * Never throws. The schema keeps references into `value`, which must be parsed JSON and must not change afterwards.
 * Supported is what OpenAI's structured outputs know (docs/decisions.md lists the keywords); everything else is rejected.
 */
export function readSchema(value: unknown): ReadSchemaResult {
  const context: ReadContext = {
    path: [],
    depth: 0,
    parts: 0,
    patternsSize: 0,
    refs: [],
    inPlace: [],
    definitions: new Map(),
    readNode,
  }
  try {
    if (!isObject(value)) return { ok: false, path: 'schema', rule: 'must be an object' }
    const root = readNode(context, value)
    resolveRefs(context, root)
    return { ok: true, schema: { root, source: value } }
  } catch (error) {
    if (error instanceof SchemaRejected)
      return { ok: false, path: schemaPath(context.path), rule: error.message }
    throw error
  }
}

function readNode(context: ReadContext, value: unknown): SchemaNode {
  countParts(context, 1)
  if (typeof value === 'boolean') return newNode(value ? ALL_TYPES : 0)
  if (!isObject(value)) return reject('must be a schema: an object, true or false')
  if (context.depth >= MAX_SCHEMA_DEPTH) return reject(`is nested more than ${MAX_SCHEMA_DEPTH} schemas deep`)
  context.depth++
  const node = newNode(ALL_TYPES)
  for (const keyword in value) readKeyword(context, node, keyword, value)
  context.depth--
  return node
}

function readKeyword(context: ReadContext, node: SchemaNode, keyword: string, source: SchemaSource): void {
  // `for … in` would walk a prototype too; parsed JSON has none of interest.
  if (!Object.hasOwn(source, keyword)) return
  context.path.push(keyword)
  const read = KEYWORDS.get(keyword)
  if (read === undefined) reject(remedyFor(keyword, [...KEYWORDS.keys()]))
  else read(context, node, source[keyword])
  context.path.pop()
}
