/**
 * Makes a plausible value that a schema accepts, for the simulator: always the same one for the same schema. For each
 * subschema it proposes likely values and takes the first that the checker accepts, so a rule that no proposal knows of
 * can leave a schema without an example, but never gives a wrong one.
 */
import type { AnswerSchema, ArrayRules, NumberRules, ObjectRules, SchemaNode } from './answer-schema.ts'
import { isObject, typeBit } from './answer-schema.ts'
import { accepts } from './check-answer.ts'
import { exampleTexts } from './example-texts.ts'
import { EXAMPLE_STEPS } from './limits.ts'
import { StepBudget, StepBudgetExceeded } from './step-budget.ts'

/** Boxed, as null is a value too; null when none was found. */
export type Example = { readonly value: unknown } | null

interface Making {
  readonly budget: StepBudget
  /** Whether properties and items that the schema does not require are made, too. */
  readonly withOptional: boolean
  /** The subschemas whose example is being made. Whatever one can hold inside itself it can also do without. */
  readonly open: Set<SchemaNode>
}

/** Subschemas inside each other; branches or values of `enum` that are tried; items of one array. */
const MAX_DEPTH = 150
const MAX_TRIED = 100
const MAX_ITEMS = 2_000

/** Never throws. It tries and does not solve: a schema may accept values although none is found. */
export function makeExample(schema: AnswerSchema, stepLimit = EXAMPLE_STEPS): Example {
  // Where the full example grows beyond measure, one with only what is required may be small.
  for (const withOptional of [true, false]) {
    try {
      const budget = new StepBudget(stepLimit / 2)
      const example = make(schema.root, { budget, withOptional, open: new Set() }, 'answer')
      if (example !== null) return example
    } catch (error) {
      if (!(error instanceof StepBudgetExceeded)) throw error
    }
  }
  return null
}

/** `name` is the property that the value is for, which texts repeat. */
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
  if (node.ref === null && node.anyOf === null) yield* ownProposals(node, making, name)
  else yield* combinedProposals(node, making, name)
}

/** Joins what the node's own keywords, its reference and one branch of `anyOf` propose. */
function* combinedProposals(node: SchemaNode, making: Making, name: string): Generator<unknown> {
  const [own] = ownProposals(node, making, name)
  const referred = node.ref === null ? null : make(node.ref, making, name)
  for (const branch of node.anyOf?.slice(0, MAX_TRIED) ?? [null]) {
    const chosen = branch === null ? null : make(branch, making, name)
    const parts = [own, referred?.value, chosen?.value].filter((part) => part !== undefined)
    const objects = parts.filter(isObject)
    if (objects.length > 1) {
      yield merged(objects)
      yield merged(objects.toReversed())
    }
    yield* parts.toReversed()
  }
}

/** `Object.fromEntries` defines its keys, so that one called `__proto__` is a key like any other. */
function merged(objects: readonly object[]): unknown {
  return Object.fromEntries(objects.flatMap((object) => Object.entries(object)))
}

const STRING = typeBit('string')
const NUMBER = typeBit('number') | typeBit('integer')
const BOOLEAN = typeBit('boolean')
const OBJECT = typeBit('object')
const ARRAY = typeBit('array')
const NULL = typeBit('null')

/** Types that the schema has rules for come first: they are what its author thought of. */
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
      // Rounded to the decimals that a person would write: 3 × 0.1 is 0.3.
      const near = [0, 1, -1, 2].map((more) => (Math.floor(bound / unit) + more) * unit)
      yield* near.map((value) => Number(value.toPrecision(15))).filter(Number.isFinite)
    }
  }
  if (bounds.length === 2) yield low / 2 + high / 2
}

function* exampleObjects(rules: ObjectRules | null, making: Making): Generator<unknown> {
  const { properties = new Map<string, SchemaNode>(), required = [], additional = null } = rules ?? {}
  making.budget.spend(required.length)
  const needed = new Set(required)
  const entries: [string, unknown][] = []
  for (const name of making.withOptional ? new Set([...properties.keys(), ...required]) : required) {
    const node = properties.get(name) ?? additional
    const example = node === null ? { value: `simulated ${name}` } : make(node, making, name)
    if (example !== null) entries.push([name, example.value])
    else if (needed.has(name)) return
  }
  yield Object.fromEntries(entries)
}

function* exampleArrays(rules: ArrayRules | null, making: Making, name: string): Generator<unknown> {
  const { items = null, minItems = 0, maxItems = 0 } = rules ?? {}
  const count = Math.max(minItems, Math.min(maxItems, making.withOptional ? 1 : 0))
  if (count > MAX_ITEMS) return
  making.budget.spend(count)
  const example = items === null ? { value: `simulated ${name}` } : make(items, making, name)
  if (example !== null) yield Array(count).fill(example.value)
  yield []
}
