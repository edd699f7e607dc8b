/** Resolves each `$ref`, and rejects schemas that refer to themselves for the same value. */
import type { SchemaNode } from './answer-schema.ts'
import { inPlaceNodes, isObject } from './answer-schema.ts'
import { truncate } from './error-text.ts'
import { MAX_ADDRESS_LENGTH, MAX_IN_PLACE_DEPTH, MAX_POINTER_LENGTH } from './limits.ts'
import { rejectId } from './read-combined.ts'
import { type ReadContext, reject } from './read-context.ts'
import { KEYWORDS } from './read-keywords.ts'

/** Throws `SchemaRejected`. `context.path` is then the path of the wrong keyword. */
export function resolveRefs(context: ReadContext, root: SchemaNode): void {
  const resolved = new Map<string, SchemaNode | null>()
  const isRoot = rootAddress(context)
  // The list grows in this loop, because a reference may lead to a part that has not been read and contains references.
  for (const { node, ref, path } of context.refs) {
    if (context.ignoredId !== null && !/^(?:#|$)/.test(ref)) {
      context.path = context.ignoredId
      rejectId()
    }
    context.path = path
    let target: SchemaNode | null | undefined = context.named.get(ref)
    if (target === undefined) {
      const fragment = localFragment(isRoot, ref)
      target = resolved.get(fragment)
      if (target === undefined) {
        target = targetOf(context, root, fragment)
        resolved.set(fragment, target)
      }
    }
    if (target === null) {
      context.path = path
      reject(`refers to ${JSON.stringify(truncate(ref))}, which is not a schema`)
    }
    node.ref = target
  }
  const depths = new Map<SchemaNode, number>()
  for (const { node, path } of context.inPlace) {
    context.path = path
    inPlaceDepth(node, depths, 0)
  }
  context.path = []
}

/** Returns the part after `#`. Rejects references out of this schema, because schemas are never fetched. */
function localFragment(isRoot: (address: string) => boolean, ref: string): string {
  if (ref.startsWith('#') || ref === '') return ref.slice(1)
  const [address = '', fragment = ''] = ref.split('#', 2)
  if (isRoot(address)) return fragment
  return reject(
    `must refer to a part of this schema, such as # or #/$defs/name; ${JSON.stringify(truncate(ref))} does not`,
  )
}

/** The address may be relative to the root's address. */
function rootAddress({ source, dialect }: ReadContext): (address: string) => boolean {
  const id = source[dialect.idKeyword]
  const base = typeof id === 'string' ? id.replace(/#$/, '') : ''
  const href = base.length <= MAX_ADDRESS_LENGTH && URL.canParse(base) ? new URL(base).href : null
  // Thousands of references may contain the same address, and parsing it takes time, so results are cached.
  const known = new Map([[base, base !== '']])
  return (address) => {
    let isSame = known.get(address)
    if (isSame === undefined) {
      const isRead = href !== null && address.length <= MAX_ADDRESS_LENGTH && URL.canParse(address, href)
      isSame = isRead && new URL(address, href).href === href
      known.set(address, isSame)
    }
    return isSame
  }
}

function targetOf(context: ReadContext, root: SchemaNode, fragment: string): SchemaNode | null {
  if (fragment === '') return root
  if (fragment.startsWith('/')) return atPointer(context, fragment)
  return context.anchors.get(decoded(fragment) ?? '') ?? null
}

const HOLDS_ONE = new Set([
  ...['items', 'additionalItems', 'additionalProperties', 'propertyNames', 'contains', 'not', 'if', 'then'],
  'else',
])
const HOLDS_LIST = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems', 'items'])
const HOLDS_MAP = new Set([
  ...['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas', 'dependencies'],
])

/** A JSON pointer (RFC 6901) may go through unknown keywords, because generators put schemas into `components`. */
function atPointer(context: ReadContext, pointer: string): SchemaNode | null {
  if (pointer.length > MAX_POINTER_LENGTH) return null
  const path = pointer.slice(1).split('/').map(decodeToken)
  let value: unknown = context.source
  let isSchema = true
  let isFree = false
  for (let at = 0; at < path.length; at++) {
    const keyword = path[at] ?? null
    if (keyword === null || !holds(value, keyword)) return null
    value = value[keyword]
    const holdsOne = HOLDS_ONE.has(keyword) && !Array.isArray(value)
    const key = path[at + 1] ?? null
    if (!isFree && !KEYWORDS.has(keyword)) isFree = true
    if (isFree || holdsOne) {
      isSchema = true
      continue
    }
    isSchema = key !== null && (Array.isArray(value) ? HOLDS_LIST : HOLDS_MAP).has(keyword)
    if (!isSchema || key === null || !holds(value, key)) return null
    value = value[key]
    at++
  }
  if (!isSchema) return null
  if (isObject(value)) {
    const known = context.nodes.get(value)
    if (known !== undefined) return known
  } else if (typeof value !== 'boolean') return null
  context.path = path.filter((key) => key !== null)
  return context.readNode(context, value)
}

function holds(value: unknown, key: string): value is { readonly [key: string]: unknown } {
  if (Array.isArray(value)) return /^(?:0|[1-9]\d{0,5})$/.test(key) && Number(key) < value.length
  return isObject(value) && Object.hasOwn(value, key)
}

function decodeToken(token: string): string | null {
  return decoded(token)?.replaceAll('~1', '/').replaceAll('~0', '~') ?? null
}

function decoded(text: string): string | null {
  if (!text.includes('%')) return text
  try {
    return decodeURIComponent(text)
  } catch {
    return null
  }
}

const VISITING = -1

/**
 * Returns through how many references and branches a node leads for the same value. Rejects cycles, which would never end, and
 * long chains, which would make the recursion of a check too deep.
 */
function inPlaceDepth(node: SchemaNode, depths: Map<SchemaNode, number>, depth: number): number {
  const known = depths.get(node)
  if (known === VISITING) return reject('refers to itself without descending into a property or an item')
  if (known !== undefined) return known
  const next = inPlaceNodes(node)
  if (next.length === 0) return 0
  if (depth > MAX_IN_PLACE_DEPTH) return rejectChain()
  depths.set(node, VISITING)
  let deepest = 0
  for (const one of next) deepest = Math.max(deepest, inPlaceDepth(one, depths, depth + 1))
  if (deepest >= MAX_IN_PLACE_DEPTH) return rejectChain()
  depths.set(node, deepest + 1)
  return deepest + 1
}

function rejectChain(): never {
  return reject(`nests more than ${MAX_IN_PLACE_DEPTH} of $ref, anyOf and others on one value`)
}
