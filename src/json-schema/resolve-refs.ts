/** Resolves each `$ref`, and rejects schemas that refer to themselves without going deeper into the value. */
import type { SchemaNode } from './answer-schema.ts'
import { truncate } from './error-text.ts'
import { MAX_IN_PLACE_DEPTH, MAX_POINTER_LENGTH } from './limits.ts'
import { type ReadContext, reject } from './read-context.ts'

/** Throws `SchemaRejected` with `context.path` at the keyword that is wrong. */
export function resolveRefs(context: ReadContext, root: SchemaNode): void {
  const resolved = new Map<string, SchemaNode | null>()
  for (const { node, pointer, path } of context.refs) {
    let target = resolved.get(pointer)
    if (target === undefined) {
      target = resolvePointer(context, root, pointer)
      resolved.set(pointer, target)
    }
    if (target === null) {
      context.path = path
      reject(`points at ${JSON.stringify(truncate(pointer))}, where there is no schema`)
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

/** Follows a JSON pointer (RFC 6901) in a URI fragment, through subschemas only. */
function resolvePointer(context: ReadContext, root: SchemaNode, pointer: string): SchemaNode | null {
  if (pointer === '#') return root
  if (pointer.length > MAX_POINTER_LENGTH) return null
  let node: SchemaNode | undefined = root
  const tokens = pointer.slice(2).split('/')
  for (let at = 0; at < tokens.length && node !== undefined; at++) {
    const keyword: string | null = decodeToken(tokens[at] ?? '')
    if (keyword === 'items') node = node.array?.items ?? undefined
    else if (keyword === 'additionalProperties') node = node.object?.additional ?? undefined
    else {
      const name: string | null = decodeToken(tokens[++at] ?? null)
      if (keyword === null || name === null) return null
      if (keyword === 'properties') node = node.object?.properties.get(name)
      else if (keyword === 'anyOf')
        node = /^(?:0|[1-9]\d{0,5})$/.test(name) ? node.anyOf?.[Number(name)] : undefined
      else node = context.definitions.get(node)?.get(keyword)?.get(name)
    }
  }
  return node ?? null
}

function decodeToken(token: string | null): string | null {
  if (token === null || !/[~%]/.test(token)) return token
  try {
    return decodeURIComponent(token).replaceAll('~1', '/').replaceAll('~0', '~')
  } catch {
    return null
  }
}

/** The depth of a node that is being visited. */
const VISITING = -1

/**
 * How many of `$ref` and `anyOf` lead on from a node while the value stays the same. A circle of them would never end,
 * and a long chain is deep recursion. Both are rejected here, so that while checking only steps into the value recurse.
 */
function inPlaceDepth(node: SchemaNode, depths: Map<SchemaNode, number>, depth: number): number {
  if (node.ref === null && node.anyOf === null) return 0
  const known = depths.get(node)
  if (known === VISITING) return reject('refers back to itself without going into a property or an item')
  if (known !== undefined) return known
  if (depth > MAX_IN_PLACE_DEPTH) {
    return reject(`leads through more than ${MAX_IN_PLACE_DEPTH} of $ref and anyOf on one value`)
  }
  depths.set(node, VISITING)
  let deepest = node.ref === null ? 0 : inPlaceDepth(node.ref, depths, depth + 1)
  for (const branch of node.anyOf ?? []) deepest = Math.max(deepest, inPlaceDepth(branch, depths, depth + 1))
  if (deepest >= MAX_IN_PLACE_DEPTH) {
    reject(`leads through more than ${MAX_IN_PLACE_DEPTH} of $ref and anyOf on one value`)
  }
  depths.set(node, deepest + 1)
  return deepest + 1
}
