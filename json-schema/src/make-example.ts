/**
 * Generates a plausible value that a schema accepts, for the simulator. The same schema always results in the same value. For
 * each subschema, the first likely value that the checker accepts is used, so an example is always valid. There may be no
 * example, although the schema accepts values.
 */
import { type AnswerSchema, isObject, type NumberRules, type SchemaNode, typeBit } from './answer-schema.ts'
import { accepts } from './check-answer.ts'
import { type Example, exampleArrays, exampleObjects, exampleTexts, type Making } from './example-parts.ts'
import { EXAMPLE_STEPS, StepBudget, StepBudgetExceeded } from './limits.ts'

const MAX_DEPTH = 150
const MAX_TRIED = 100

/** Never throws. May return null although the schema accepts values. */
export function makeExample(schema: AnswerSchema, stepLimit = EXAMPLE_STEPS): Example {
  // If the budget is spent on an example with optional parts, an example without them may be possible.
  for (const withOptional of [true, false]) {
    try {
      const budget = new StepBudget(stepLimit / 2)
      const example = make(schema.root, { budget, withOptional, open: new Set(), make }, 'answer')
      if (example !== null) return example
    } catch (error) {
      if (!(error instanceof StepBudgetExceeded)) throw error
    }
  }
  return null
}

/** @param name the name of the property, which texts contain */
function make(node: SchemaNode, making: Making, name: string): Example {
  const { budget, open } = making
  budget.spend(4)
  if (open.has(node) || open.size >= MAX_DEPTH) return firstAccepted(node, [null], budget)
  open.add(node)
  const example = firstAccepted(node, proposals(node, making, name), budget)
  open.delete(node)
  return example
}

function firstAccepted(node: SchemaNode, values: Iterable<unknown>, budget: StepBudget): Example {
  for (const value of values) if (accepts(node, value, budget)) return { value }
  return null
}

function* proposals(node: SchemaNode, making: Making, name: string): Generator<unknown> {
  const [allowed] = node.allowed
  if (allowed !== undefined) {
    yield* allowed.values.slice(0, MAX_TRIED)
    return
  }
  if (node.default !== null) yield node.default.value
  if (node.ref === null && node.combined === null) yield* ownProposals(node, making, name)
  else yield* combinedProposals(node, making, name)
}

/** Values for the schemas that apply to the same value may have to be merged with proposals for the node's own keywords. */
function* combinedProposals(node: SchemaNode, making: Making, name: string): Generator<unknown> {
  const { ref, combined } = node
  const [own] = ownProposals(node, making, name)
  const always = [ref, ...(combined?.allOf ?? [])].map((one) => valueFor(one, making, name))
  for (const after of new Set([combined?.consequence ?? null, combined?.alternative ?? null])) {
    yield* branchProposals(node, [own, ...always, valueFor(after, making, name)], making, name)
  }
  if (combined !== null) yield* ownProposals(node, making, name)
}

function* branchProposals(
  { combined }: SchemaNode,
  fixed: readonly unknown[],
  making: Making,
  name: string,
): Generator<unknown> {
  for (const branch of combined?.anyOf?.slice(0, MAX_TRIED) ?? [null]) {
    for (const other of combined?.oneOf?.slice(0, MAX_TRIED) ?? [null]) {
      const chosen = [valueFor(branch, making, name), valueFor(other, making, name)]
      const parts = [...fixed, ...chosen].filter((part) => part !== undefined)
      const objects = parts.filter(isObject)
      if (objects.length > 1) {
        yield merged(objects)
        yield merged(objects.toReversed())
      }
      yield* parts.toReversed()
    }
  }
}

function valueFor(node: SchemaNode | null, making: Making, name: string): unknown {
  return node === null ? undefined : make(node, making, name)?.value
}

/** `Object.fromEntries` defines the keys, so `__proto__` is an ordinary key. */
function merged(objects: readonly object[]): unknown {
  return Object.fromEntries(objects.flatMap((object) => Object.entries(object)))
}

const STRING = typeBit('string')
const NUMBER = typeBit('number') | typeBit('integer')
const BOOLEAN = typeBit('boolean')
const OBJECT = typeBit('object')
const ARRAY = typeBit('array')
const NULL = typeBit('null')

/** The author of a schema probably means the types for which it has rules, so these types come first. */
function* ownProposals(node: SchemaNode, making: Making, name: string): Generator<unknown> {
  const { types, string, number, object, array } = node
  const possible: [bits: number, rules: object | null, values: Iterable<unknown>][] = [
    [STRING, string, exampleTexts(string, name, making.budget)],
    [NUMBER, number, exampleNumbers(number)],
    [BOOLEAN, null, [true]],
    [OBJECT, object, exampleObjects(object, making)],
    [ARRAY, array, exampleArrays(array, making, name)],
    [NULL, null, [null]],
  ]
  for (const hasRules of [true, false]) {
    for (const [bits, rules, values] of possible) {
      if ((types & bits) !== 0 && (rules !== null) === hasRules) yield* values
    }
  }
}

function* exampleNumbers(rules: NumberRules | null): Generator<number> {
  yield 1
  if (rules === null) return
  yield 0
  const low = Math.max(rules.minimum, rules.exclusiveMinimum ?? Number.NEGATIVE_INFINITY)
  const high = Math.min(rules.maximum, rules.exclusiveMaximum ?? Number.POSITIVE_INFINITY)
  const bounds = [low, high].filter(Number.isFinite)
  yield* bounds
  for (const unit of [rules.multipleOf ?? 1, 1]) {
    for (const bound of bounds) {
      // Rounding to 15 digits results in the decimal number that a person would write: 3 × 0.1 becomes 0.3.
      const near = [0, 1, -1, 2].map((more) => (Math.floor(bound / unit) + more) * unit)
      yield* near.map((value) => Number(value.toPrecision(15))).filter(Number.isFinite)
    }
  }
  if (bounds.length === 2) yield low / 2 + high / 2
}
