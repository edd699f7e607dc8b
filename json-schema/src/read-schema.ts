/**
 * Reads a caller's JSON Schema into the form in which answers are checked. A rejection names the wrong keyword and what to use
 * instead. The limits bound how long reading takes. Callers must limit the size of the schema's text.
 */
import {
  ALL_TYPES,
  type AnswerSchema,
  isObject,
  newNode,
  type SchemaNode,
  type SchemaSource,
} from './answer-schema.ts'
import { schemaPath } from './error-text.ts'
import { MAX_SCHEMA_DEPTH } from './limits.ts'
import {
  countParts,
  dialectOf,
  ignoreKeyword,
  type ReadContext,
  reject,
  SchemaRejected,
} from './read-context.ts'
import { BESIDE_REF, KEYWORDS, rejectionFinder } from './read-keywords.ts'
import { resolveRefs } from './resolve-refs.ts'

const rejectionOf = rejectionFinder(KEYWORDS.keys())

/**
 * If the schema is rejected, `path` is the location, such as `schema.properties.age.minimum`, and `rule` continues it to a
 * sentence.
 */
export type ReadSchemaResult =
  | { readonly ok: true; readonly schema: AnswerSchema }
  | { readonly ok: false; readonly path: string; readonly rule: string }

/**
 * Reads a schema of any draft from draft-04 to 2020-12. Never throws. Lists the keywords that are not enforced (`ignored`).
 * Rejects a schema if ignoring a part of it would accept answers that its author wanted to exclude.
 * @param value parsed JSON; it must not change afterwards, because the result refers to parts of it
 */
export function readSchema(value: unknown): ReadSchemaResult {
  if (!isObject(value)) return { ok: false, path: 'schema', rule: 'must be an object' }
  const context = newContext(value)
  try {
    const root = readNode(context, value)
    resolveRefs(context, root)
    return { ok: true, schema: { root, source: value, ignored: context.ignored } }
  } catch (error) {
    if (error instanceof SchemaRejected)
      return { ok: false, path: schemaPath(context.path), rule: error.message }
    throw error
  }
}

function newContext(source: SchemaSource): ReadContext {
  return {
    source,
    dialect: dialectOf(source),
    path: [],
    depth: 0,
    parts: 0,
    patternsSize: 0,
    refs: [],
    inPlace: [],
    nodes: new Map(),
    anchors: new Map(),
    named: new Map(),
    ignoredId: null,
    ignored: { pointers: [], more: 0 },
    readNode,
  }
}

function readNode(context: ReadContext, value: unknown): SchemaNode {
  countParts(context, 1)
  if (typeof value === 'boolean') return newNode(value ? ALL_TYPES : 0)
  if (!isObject(value)) return reject('must be a schema: an object, true or false')
  if (context.depth >= MAX_SCHEMA_DEPTH) return reject(`is nested more than ${MAX_SCHEMA_DEPTH} schemas deep`)
  context.depth++
  const node = newNode(ALL_TYPES)
  context.nodes.set(value, node)
  const isRefAlone = context.dialect.refStandsAlone && typeof value.$ref === 'string'
  // Up to draft-07, keywords next to `$ref` have no effect. They are read nevertheless, because other references may point into
  // them.
  const siblings = isRefAlone ? newNode(ALL_TYPES) : node
  for (const keyword in value) {
    readKeyword(context, keyword === '$ref' ? node : siblings, keyword, value)
    if (isRefAlone && !BESIDE_REF.has(keyword) && KEYWORDS.has(keyword)) ignoreAt(context, keyword)
  }
  context.depth--
  return node
}

function readKeyword(context: ReadContext, node: SchemaNode, keyword: string, source: SchemaSource): void {
  // Inherited properties are not keywords.
  if (!Object.hasOwn(source, keyword)) return
  context.path.push(keyword)
  const read = KEYWORDS.get(keyword)
  if (read !== undefined) read(context, node, source[keyword], source)
  else {
    const rule = rejectionOf(keyword)
    if (rule === null) ignoreKeyword(context)
    else reject(rule)
  }
  context.path.pop()
}

function ignoreAt(context: ReadContext, keyword: string): void {
  context.path.push(keyword)
  ignoreKeyword(context)
  context.path.pop()
}
