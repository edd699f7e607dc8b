/** Binds each `$ref` to the schema it points at, and refuses schemas that run in a circle on one and the same value. */
import type { SchemaNode } from './answer-schema.ts'
import { MAX_JUMPS, MAX_POINTER_LENGTH } from './limits.ts'
import { clip, refuse, type SchemaReading } from './read-context.ts'

/** Throws `SchemaRefused` with `reading.path` at the keyword at fault. */
export function resolveRefs(reading: SchemaReading, root: SchemaNode): void {
  const found = new Map<string, SchemaNode | null>()
  for (const { node, pointer, path } of reading.refs) {
    let target = found.get(pointer)
    if (target === undefined) {
      target = follow(reading, root, pointer)
      found.set(pointer, target)
    }
    if (target === null) {
      reading.path = path
      refuse(`points at ${JSON.stringify(clip(pointer))}, where there is no schema`)
    }
    node.ref = target
  }
  const lengths = new Map<SchemaNode, number>()
  for (const { node, path } of reading.jumps) {
    reading.path = path
    jumpsFrom(node, lengths, 0)
  }
  reading.path = []
}

/** A JSON pointer (RFC 6901) in a URI fragment, followed through subschemas only. */
function follow(reading: SchemaReading, root: SchemaNode, pointer: string): SchemaNode | null {
  if (pointer === '#') return root
  if (pointer.length > MAX_POINTER_LENGTH) return null
  let node: SchemaNode | undefined = root
  const tokens = pointer.slice(2).split('/')
  for (let at = 0; at < tokens.length && node !== undefined; at++) {
    const keyword: string | null = decode(tokens[at] ?? '')
    if (keyword === 'items') node = node.array?.items ?? undefined
    else if (keyword === 'additionalProperties') node = node.object?.additional ?? undefined
    else {
      const name: string | null = decode(tokens[++at] ?? null)
      if (keyword === null || name === null) return null
      if (keyword === 'properties') node = node.object?.properties.get(name)
      else if (keyword === 'anyOf')
        node = /^(?:0|[1-9]\d{0,5})$/.test(name) ? node.anyOf?.[Number(name)] : undefined
      else node = reading.definitions.get(node)?.get(keyword)?.get(name)
    }
  }
  return node ?? null
}

function decode(token: string | null): string | null {
  if (token === null || !/[~%]/.test(token)) return token
  try {
    return decodeURIComponent(token).replaceAll('~1', '/').replaceAll('~0', '~')
  } catch {
    return null
  }
}

/** Marks a node whose jumps are being followed. */
const OPEN = -1

/**
 * How many jumps lead on from a node without stepping into the value. A circle of them would never end, and a long
 * chain is deep recursion: both are refused here, so that only steps into the value can recurse while checking.
 */
function jumpsFrom(node: SchemaNode, lengths: Map<SchemaNode, number>, depth: number): number {
  if (node.ref === null && node.anyOf === null) return 0
  const known = lengths.get(node)
  if (known === OPEN) return refuse('refers back to itself without going into a property or an item')
  if (known !== undefined) return known
  if (depth > MAX_JUMPS) return refuse(`leads through more than ${MAX_JUMPS} of $ref and anyOf on one value`)
  lengths.set(node, OPEN)
  let longest = node.ref === null ? 0 : jumpsFrom(node.ref, lengths, depth + 1)
  for (const branch of node.anyOf ?? []) longest = Math.max(longest, jumpsFrom(branch, lengths, depth + 1))
  if (longest >= MAX_JUMPS) refuse(`leads through more than ${MAX_JUMPS} of $ref and anyOf on one value`)
  lengths.set(node, longest + 1)
  return longest + 1
}
