/** Makes a plausible answer to a schema, for the simulator: always the same one for the same schema. */
import type { AnswerSchema, ObjectRules, SchemaNode, SchemaSource } from './answer-schema.ts'
import { isObject, typeBit } from './answer-schema.ts'
import { checkAnswer, meetsNode } from './check-answer.ts'
import { MAKE_STEPS } from './limits.ts'
import { makeNumber, makeString } from './make-plain.ts'
import { type Heights, heightsOf } from './node-heights.ts'
import { Steps, StepsSpent } from './steps.ts'

/** `reason` completes a sentence such as "No instance could be made: …". */
export type MadeInstance =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly reason: string }

/**
 * Never throws, and what it makes always passes `checkAnswer`. All properties are filled in, except where that would
 * go on for ever. It tries and does not solve: a schema may have instances although none is found.
 */
export function makeInstance(schema: AnswerSchema, budget = MAKE_STEPS): MadeInstance {
  // Full first; where that grows beyond measure, only with what is required.
  for (const isLean of [false, true]) {
    try {
      const steps = new Steps(budget / 2)
      const heights = heightsOf(schema.root, steps)
      const made = make(schema.root, { steps, heights, open: new Set(), isLean, depth: 0 }, 'answer')
      if (made === null) continue
      if (checkAnswer(schema, made.value).ok) return { ok: true, value: made.value }
    } catch (error) {
      if (!(error instanceof StepsSpent)) throw error
    }
  }
  return {
    ok: false,
    reason: 'none was found that meets the schema; it may be contradictory, endless or very large',
  }
}

/** Boxed, as null is a value too; null for "none found". */
type Made = { readonly value: unknown } | null

interface Making {
  readonly steps: Steps
  readonly heights: Heights
  /** The subschemas whose instance is being made: meeting one again is recursion. */
  readonly open: Set<SchemaNode>
  readonly isLean: boolean
  depth: number
}

const MAX_MADE_DEPTH = 150
/** Values of an `enum`, or items of an array, that are tried or made. */
const MAX_TRIED = 100
const MAX_MADE_ITEMS = 2_000

function make(node: SchemaNode, making: Making, name: string): Made {
  making.steps.spend(4)
  if (making.heights.get(node) === Number.POSITIVE_INFINITY || making.depth > MAX_MADE_DEPTH) return null
  for (const { values } of node.allowed) return firstFit(node, values.slice(0, MAX_TRIED), making)
  if (node.example !== null && meetsNode(node, node.example.value, making.steps)) return node.example
  const isAgain = making.open.has(node)
  const inside = isAgain && !making.isLean ? { ...making, isLean: true } : making
  inside.open.add(node)
  inside.depth = making.depth + 1
  const made =
    node.ref === null && node.anyOf === null
      ? makeContent(node, inside, name, isAgain)
      : makeCombined(node, inside, name, isAgain)
  inside.depth--
  if (!isAgain) inside.open.delete(node)
  return made
}

function firstFit(node: SchemaNode, values: Iterable<unknown>, making: Making): Made {
  for (const value of values) if (meetsNode(node, value, making.steps)) return { value }
  return null
}

/** Joins what the reference, one branch of `anyOf` and the node's own keywords ask for. */
function makeCombined(node: SchemaNode, making: Making, name: string, isAgain: boolean): Made {
  const base = node.ref === null ? null : make(node.ref, making, name)
  const hasOwn = node.object !== null || node.array !== null || node.string !== null || node.number !== null
  const own = hasOwn ? makeContent(node, making, name, isAgain) : null
  for (const branch of node.anyOf === null ? [null] : inOrder(node.anyOf, making)) {
    const chosen = branch === null ? null : make(branch, making, name)
    const parts = [chosen, base, own].flatMap((made) => (made === null ? [] : [made.value]))
    const made = firstFit(node, candidates(parts), making)
    if (made !== null) return made
  }
  return null
}

function* candidates(parts: readonly unknown[]): Generator<unknown> {
  if (parts.length > 1 && parts.every(isObject)) {
    yield merged(parts)
    yield merged(parts.toReversed())
  }
  yield* parts
}

/** `Object.fromEntries` defines its keys, so that one called `__proto__` is a key like any other. */
function merged(parts: readonly SchemaSource[]): SchemaSource {
  return Object.fromEntries(parts.flatMap((part) => Object.entries(part)))
}

/** The first branch that starts no recursion; once recursion has begun, the one that ends it soonest. */
function inOrder(branches: readonly SchemaNode[], making: Making): SchemaNode[] {
  making.steps.spend(branches.length)
  const rank = (branch: SchemaNode) =>
    making.isLean ? (making.heights.get(branch) ?? 0) : startsAgain(branch, making) ? 1 : 0
  return branches.toSorted((a, b) => Math.sign(rank(a) - rank(b)) || 0).slice(0, MAX_TRIED)
}

function startsAgain(node: SchemaNode, making: Making): boolean {
  for (let at: SchemaNode | null = node; at !== null; at = at.ref) if (making.open.has(at)) return true
  return false
}

type MakeType = (node: SchemaNode, making: Making, name: string) => Made

const MAKERS: readonly (readonly [bit: number, has: (node: SchemaNode) => boolean, make: MakeType])[] = [
  [typeBit('object'), (node) => node.object !== null, makeObject],
  [typeBit('array'), (node) => node.array !== null, makeArray],
  [
    typeBit('string'),
    (node) => node.string !== null,
    (node, { steps }, name) => boxed(makeString(node.string, name, steps)),
  ],
  [
    typeBit('integer'),
    (node) => node.number !== null,
    (node, { steps }) => boxed(makeNumber(node.number, true, steps)),
  ],
  [
    typeBit('number'),
    (node) => node.number !== null,
    (node, { steps }) => boxed(makeNumber(node.number, false, steps)),
  ],
  [typeBit('string'), () => true, (node, { steps }, name) => boxed(makeString(node.string, name, steps))],
  [typeBit('integer'), () => true, (node, { steps }) => boxed(makeNumber(node.number, true, steps))],
  [typeBit('number'), () => true, (node, { steps }) => boxed(makeNumber(node.number, false, steps))],
  [typeBit('boolean'), () => true, () => ({ value: true })],
  [typeBit('object'), () => true, makeObject],
  [typeBit('array'), () => true, makeArray],
  [typeBit('null'), () => true, () => ({ value: null })],
]

const NULL = typeBit('null')

/** Types with rules of their own come first. A value that recursion may leave out is null. */
function makeContent(node: SchemaNode, making: Making, name: string, isAgain: boolean): Made {
  if (isAgain && (node.types & NULL) !== 0) return { value: null }
  for (const [bit, has, makeType] of MAKERS) {
    const made = (node.types & bit) !== 0 && has(node) ? makeType(node, making, name) : null
    if (made !== null) return made
  }
  return null
}

function boxed(value: string | number | null): Made {
  return value === null ? null : { value }
}

function makeObject(node: SchemaNode, making: Making): Made {
  if (node.object === null) return { value: {} }
  const { properties, required, additional }: ObjectRules = node.object
  const needed = new Set(required)
  making.steps.spend(required.length)
  const entries: [string, unknown][] = []
  for (const [name, inside] of properties) {
    const isNeeded = needed.delete(name)
    if (!isNeeded && (making.isLean || startsAgain(inside, making))) continue
    const made = make(inside, making, name)
    if (made !== null) entries.push([name, made.value])
    else if (isNeeded) return null
  }
  for (const name of needed) {
    const made =
      additional === null ? { value: makeString(null, name, making.steps) } : make(additional, making, name)
    if (made === null) return null
    entries.push([name, made.value])
  }
  return { value: Object.fromEntries(entries) }
}

function makeArray(node: SchemaNode, making: Making, name: string): Made {
  if (node.array === null) return { value: [] }
  const { items, minItems, maxItems } = node.array
  const isPlain = items !== null && !making.isLean && !startsAgain(items, making)
  const count = Math.max(minItems, Math.min(maxItems, isPlain || items === null ? 1 : 0))
  if (count > MAX_MADE_ITEMS) return null
  const values: unknown[] = []
  for (let index = 0; index < count; index++) {
    const made = items === null ? { value: makeString(null, name, making.steps) } : make(items, making, name)
    if (made === null) return minItems === 0 ? { value: [] } : null
    values.push(made.value)
  }
  return { value: values }
}
