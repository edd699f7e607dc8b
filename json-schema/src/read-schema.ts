/**
 * Reads a caller's JSON schema into the form that answers are checked with, or names the wrong keyword and what to use instead.
 * The limits bound the time, not the size of the schema.
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

/** `path` is a text such as `schema.properties.age.minimum`; `rule` completes a sentence that begins with it. */
export type ReadSchemaResult =
  | { readonly ok: true; readonly schema: AnswerSchema }
  | { readonly ok: false; readonly path: string; readonly rule: string }

/**
 * Never throws. The schema keeps references into `value`, which must be parsed JSON and must not change afterwards. Supports
 * JSON Schema from draft-04 to 2020-12. It lists what it cannot enforce (`ignored`), and rejects what would accept answers that
 * the author meant to exclude.
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
  // Keywords next to such a reference have no effect, but are read, because other references may point into them.
  const siblings = isRefAlone ? newNode(ALL_TYPES) : node
  for (const keyword in value) {
    readKeyword(context, keyword === '$ref' ? node : siblings, keyword, value)
    if (isRefAlone && !BESIDE_REF.has(keyword) && KEYWORDS.has(keyword)) ignoreAt(context, keyword)
  }
  context.depth--
  return node
}

function readKeyword(context: ReadContext, node: SchemaNode, keyword: string, source: SchemaSource): void {
  // Only own keywords count; a prototype has none.
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
