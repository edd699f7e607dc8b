/** How deep the smallest instance of each subschema is: what lets a maker of instances end recursion early. */
import { ALL_TYPES, type SchemaNode, typeBit } from './answer-schema.ts'
import type { Steps } from './steps.ts'

const OBJECT = typeBit('object')
const ARRAY = typeBit('array')

/** Rounds of refinement; a schema that needs deeper instances gets none. */
const MAX_ROUNDS = 100

export type Heights = ReadonlyMap<SchemaNode, number>

/** Infinity for subschemas whose instances would never end, or that allow nothing. Throws `StepsSpent`. */
export function heightsOf(root: SchemaNode, steps: Steps): Heights {
  const nodes = reachable(root, steps)
  const heights = new Map<SchemaNode, number>(nodes.map((node) => [node, Number.POSITIVE_INFINITY]))
  for (let round = 0, changed = true; changed && round < MAX_ROUNDS; round++) {
    changed = false
    // Backwards, as what is inside comes later in the list.
    for (let index = nodes.length - 1; index >= 0; index--) {
      const node = nodes[index]
      if (node === undefined) continue
      const height = heightOf(node, heights, steps)
      if (height < (heights.get(node) ?? 0)) {
        heights.set(node, height)
        changed = true
      }
    }
  }
  return heights
}

function reachable(root: SchemaNode, steps: Steps): SchemaNode[] {
  const seen = new Set([root])
  for (const node of seen) {
    steps.spend(2)
    for (const next of neighbours(node)) seen.add(next)
  }
  return [...seen]
}

function* neighbours(node: SchemaNode): Generator<SchemaNode> {
  if (node.ref !== null) yield node.ref
  if (node.anyOf !== null) yield* node.anyOf
  if (node.object !== null) {
    yield* node.object.properties.values()
    if (node.object.additional !== null) yield node.object.additional
  }
  if (node.array?.items) yield node.array.items
}

function heightOf(node: SchemaNode, heights: Heights, steps: Steps): number {
  steps.spend(1)
  if (node.allowed.length > 0) return 1
  let height = contentHeight(node, heights, steps)
  if (node.ref !== null) height = Math.max(height, heights.get(node.ref) ?? 0)
  if (node.anyOf !== null) {
    steps.spend(node.anyOf.length / 4)
    const least = node.anyOf.reduce(
      (low, branch) => Math.min(low, heights.get(branch) ?? 0),
      Number.POSITIVE_INFINITY,
    )
    height = Math.max(height, least)
  }
  return height
}

function contentHeight(node: SchemaNode, heights: Heights, steps: Steps): number {
  if (node.types === ALL_TYPES || (node.types & ~(OBJECT | ARRAY)) !== 0) return 1
  let least = Number.POSITIVE_INFINITY
  if ((node.types & OBJECT) !== 0) least = objectHeight(node, heights, steps)
  if ((node.types & ARRAY) !== 0) {
    const items = node.array !== null && node.array.minItems > 0 ? node.array.items : null
    least = Math.min(least, 1 + (items === null ? 0 : (heights.get(items) ?? 0)))
  }
  return least
}

function objectHeight({ object }: SchemaNode, heights: Heights, steps: Steps): number {
  if (object === null) return 1
  steps.spend(object.required.length / 4)
  let deepest = 0
  for (const name of object.required) {
    const node = object.properties.get(name) ?? object.additional
    if (node !== null) deepest = Math.max(deepest, heights.get(node) ?? 0)
  }
  return 1 + deepest
}
