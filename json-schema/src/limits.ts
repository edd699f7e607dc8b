/**
 * How large a caller's schema may be, and how long it may block the event loop. A schema may be hostile; the limits leave
 * room for every schema that a model could use. A budget of steps bounds time without a clock: the same schema and answer always
 * take the same number of steps, so a test can check the limit.
 */

/** Subschemas inside subschemas, and values inside the values of `enum` and `const`. */
export const MAX_SCHEMA_DEPTH = 64

/** Subschemas, keywords that are not enforced, names in `required`, values in `enum` and `const` (nested ones too), all together. */
export const MAX_SCHEMA_PARTS = 20_000

/** `$ref`, `anyOf` and others that lead from one schema to the next while the value stays the same. */
export const MAX_IN_PLACE_DEPTH = 64

/** Characters of the pointer in a `$ref`. */
export const MAX_POINTER_LENGTH = 2_000

/**
 * Characters of the root's `$id`, and of the address in a `$ref`, to be compared as URLs; longer ones are compared as text.
 */
export const MAX_ADDRESS_LENGTH = 500

/** Characters of one `pattern`. */
export const MAX_PATTERN_LENGTH = 5_000

/** Groups of a `pattern` inside each other. */
export const MAX_PATTERN_DEPTH = 50

/** Instructions of one `pattern` after its counted repetitions are expanded: `a{1000}` has 1,000. */
export const MAX_PATTERN_SIZE = 10_000

/** The same for all patterns of a schema together. */
export const MAX_PATTERNS_SIZE = 50_000

/**
 * The steps that checking a short answer may take, about 15 ms. Longer answers may take more: see `checkSteps`.
 */
export const CHECK_STEPS = 300_000

/**
 * Additional steps for each character of the answer: about 0.4 µs. A pattern that every character must match takes about one
 * step a character, and so do the rows of a table with a pattern in each.
 */
const STEPS_PER_CHARACTER = 8

/** The budget for checking an answer of this many characters. */
export function checkSteps(characters: number): number {
  return CHECK_STEPS + STEPS_PER_CHARACTER * characters
}

/**
 * The steps that a check may take on the event loop, about 5 ms. One that needs more starts over on a thread, with
 * `checkSteps`. An answer of 64 KiB with a pattern in every row takes 30,000.
 */
export const FIRST_CHECK_STEPS = 60_000

/** Schemas inside each other while checking: bounds the stack, since `$ref` may recurse as deep as the answer does. */
export const MAX_CHECK_DEPTH = 1_000

/** Maximum errors reported for one answer. More would not help a model to repair it. */
export const MAX_ERRORS = 20

/** The steps that generating one example may take, including its checks. */
export const EXAMPLE_STEPS = 120_000

/** Pointers to keywords that are not enforced, listed for one schema. */
export const MAX_IGNORED = 64

/** Characters of each of them; a longer one is only counted. */
export const MAX_IGNORED_LENGTH = 256

/** Thrown by `StepBudget.spend`, and caught by the public functions of this folder. */
export class StepBudgetExceeded extends Error {
  constructor() {
    super('the budget of steps is spent')
  }
}

/** Counts down. One step stands for about 50 ns of work; cheaper work is charged in fractions. */
export class StepBudget {
  readonly limit: number
  #left: number

  constructor(limit: number) {
    this.limit = limit
    this.#left = limit
  }

  /** Takes `count` steps (fractions allowed), or throws `StepBudgetExceeded` when fewer are left. */
  spend(count: number): void {
    this.#left -= count
    if (this.#left < 0) throw new StepBudgetExceeded()
  }

  /** Whether the limit was exceeded. */
  get isExceeded(): boolean {
    return this.#left < 0
  }

  /** How many steps have been taken; never more than `limit`. */
  get spent(): number {
    return Math.min(this.limit, this.limit - this.#left)
  }
}

/** `Object.keys`, charged to the budget. Objects of many keys are hash tables: listing them costs about 130 ns a key. */
export function chargedKeys(value: object, budget: StepBudget): string[] {
  const keys = Object.keys(value)
  budget.spend(keys.length > 100 ? 3 * keys.length : keys.length / 2)
  return keys
}
