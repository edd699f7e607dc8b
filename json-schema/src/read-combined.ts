/**
 * Reads the keywords that apply other schemas to the same value: `allOf`, `anyOf`, `oneOf`, `not`, `if` and `$ref`. Also reads
 * definitions, anchors and addresses.
 */
import { type CombinedRules, isObject, type SchemaNode, type SchemaSource } from './answer-schema.ts'
import { MAX_SCHEMA_DEPTH } from './limits.ts'
import {
  ignoreKeyword,
  noteInPlace,
  type ReadContext,
  type ReadKeyword,
  readSchemaMap,
  readSchemas,
  reject,
} from './read-context.ts'

export const COMBINED_KEYWORDS: readonly (readonly [string, ReadKeyword])[] = [
  ['allOf', readBranches('allOf')],
  ['anyOf', readBranches('anyOf')],
  ['oneOf', readBranches('oneOf')],
  ['not', readOne('not')],
  ['if', readOne('condition')],
  ['then', readAfterIf('consequence')],
  ['else', readAfterIf('alternative')],
  ['$ref', readRef],
  ['$defs', readDefinitions],
  ['definitions', readDefinitions],
  ['$anchor', readAnchor],
  ['$dynamicAnchor', readAnchor],
  ['$id', readId],
  ['id', readId],
]

function combinedRules(node: SchemaNode): CombinedRules {
  node.combined ??= {
    allOf: [],
    anyOf: null,
    oneOf: null,
    not: null,
    condition: null,
    consequence: null,
    alternative: null,
  }
  return node.combined
}

function readBranches(keyword: 'allOf' | 'anyOf' | 'oneOf'): ReadKeyword {
  return (context, node, value) => {
    noteInPlace(context, node)
    combinedRules(node)[keyword] = readSchemas(context, value)
  }
}

function readOne(rule: 'not' | 'condition'): ReadKeyword {
  return (context, node, value) => {
    noteInPlace(context, node)
    combinedRules(node)[rule] = context.readNode(context, value)
  }
}

function readAfterIf(rule: 'consequence' | 'alternative'): ReadKeyword {
  return (context, node, value, source) => {
    combinedRules(node)[rule] = context.readNode(context, value)
    if (source.if === undefined) ignoreKeyword(context)
  }
}

function readRef(context: ReadContext, node: SchemaNode, value: unknown): void {
  if (typeof value !== 'string') reject('must be a string such as #/$defs/name')
  context.refs.push({ node, ref: value, path: [...context.path] })
  noteInPlace(context, node)
}

/** Definitions have an effect only through references to them. */
function readDefinitions(context: ReadContext, _node: SchemaNode, value: unknown): void {
  readSchemaMap(context, value)
}

const ANCHOR = /^[A-Za-z_][\w.:-]{0,200}$/

function readAnchor(context: ReadContext, node: SchemaNode, value: unknown): void {
  if (typeof value !== 'string' || !ANCHOR.test(value)) {
    reject('must be a name of letters, digits, "_", "-", "." and ":" that begins with a letter')
  }
  addAnchor(context, node, value)
}

function addAnchor(context: ReadContext, node: SchemaNode, name: string): void {
  if (context.anchors.has(name)) reject('must be unique: another schema has the same name')
  context.anchors.set(name, node)
}

/**
 * The address of the root has no effect. An address of a subschema would change the target of each `$ref` in it, so most are
 * rejected. Two kinds are accepted: the name of a definition, which TypeBox generates for types that refer to themselves, and
 * any address on which no reference depends, which Effect 3 generates for types that accept anything.
 */
function readId(context: ReadContext, node: SchemaNode, value: unknown, source: SchemaSource): void {
  const { idKeyword, refStandsAlone } = context.dialect
  const keyword = context.path.at(-1)
  // `id` is a keyword only in draft-04, which has no `$id`.
  if (keyword !== idKeyword && keyword === 'id') ignoreKeyword(context)
  else if (source === context.source) return
  else if (refStandsAlone && typeof value === 'string' && ANCHOR.test(value.slice(1)) && value[0] === '#') {
    addAnchor(context, node, value.slice(1))
  } else if (isNamedDefinition(context, value, source)) {
    if (context.named.has(value)) reject('must be unique: another schema has the same name')
    context.named.set(value, node)
  } else if (typeof value === 'string' && source.$schema === undefined && isClosed(source, null, 0)) {
    context.ignoredId ??= [...context.path]
  } else rejectId()
}

export function rejectId(): never {
  return reject('is only supported at the root; move the schema to $defs and refer to it as #/$defs/name')
}

/** A plain name of a root definition means the same in every `$ref`. References inside must also be such names. */
function isNamedDefinition(context: ReadContext, value: unknown, source: SchemaSource): value is string {
  const { path, dialect, source: root } = context
  if (typeof value !== 'string' || !DEFINITION_NAME.test(value) || value === root[dialect.idKeyword])
    return false
  const isDefinition = path.length === 3 && (path[0] === '$defs' || path[0] === 'definitions')
  const isRefAlone = dialect.refStandsAlone && source.$ref !== undefined
  return isDefinition && !isRefAlone && isClosed(source, DEFINITION_NAME, 0)
}

const DEFINITION_NAME = /^[A-Za-z_][\w-]{0,200}$/

/** In a closed schema, every `$ref` matches `names`, and no reference from outside can point to an anchor or address. */
function isClosed(value: unknown, names: RegExp | null, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return true
  if (depth > 2 * MAX_SCHEMA_DEPTH) return false
  if (isObject(value)) {
    const { $ref, $anchor, $dynamicAnchor, $id, id } = value
    if ($ref !== undefined && !(typeof $ref === 'string' && names?.test($ref))) return false
    const hasAddress = $id !== undefined || (typeof id === 'string' && id.startsWith('#'))
    if ($anchor !== undefined || $dynamicAnchor !== undefined || (hasAddress && depth > 0)) return false
  }
  return Object.values(value).every((inside) => isClosed(inside, names, depth + 1))
}
