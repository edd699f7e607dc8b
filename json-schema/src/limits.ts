/**
 * Limits of the size of a caller's schema, and of the time for which it may block the event loop. They must stop hostile
 * schemas, but allow any schema that a model could use. Time is limited by a budget of steps instead of a clock: the same
 * schema and answer always take the same number of steps, so tests can check the limits.
 */

/** How deep subschemas, and values in `enum` and `const`, may be nested. */
export const MAX_SCHEMA_DEPTH = 64

/**
 * The maximum sum of subschemas, unenforced keywords, names in `required`, and values in `enum` and `const`, including nested
 * ones.
 */
export const MAX_SCHEMA_PARTS = 20_000

/** Through how many schemas `$ref`, `anyOf` and similar keywords may lead for the same value. */
export const MAX_IN_PLACE_DEPTH = 64

/** Maximum characters of the pointer in a `$ref`. */
export const MAX_POINTER_LENGTH = 2_000

/**
 * The `$id` of the root and the address in a `$ref` are compared as URLs if they have at most this many characters. Longer ones
 * are compared as text.
 */
export const MAX_ADDRESS_LENGTH = 500

/** Maximum characters of one `pattern`. */
export const MAX_PATTERN_LENGTH = 5_000

/** How deep groups in a `pattern` may be nested. */
export const MAX_PATTERN_DEPTH = 50

/** Maximum instructions of one `pattern`. Counted repetitions are expanded: `a{1000}` has 1,000 instructions. */
export const MAX_PATTERN_SIZE = 10_000

/** Maximum instructions of all patterns of a schema together. */
export const MAX_PATTERNS_SIZE = 50_000

/** How many steps the check of a short answer may take: about 15 ms. Longer answers may take more; see `checkSteps`. */
export const CHECK_STEPS = 300_000

/**
 * How many more steps are allowed for each character of an answer: about 0.4 µs. A pattern that must match every character
 * takes about one step per character, and so does a table with a pattern in each row.
 */
const STEPS_PER_CHARACTER = 8

/** Returns how many steps the check of an answer with this many characters may take. */
export function checkSteps(characters: number): number {
  return CHECK_STEPS + STEPS_PER_CHARACTER * characters
}

/**
 * How many steps a check may take on the event loop: about 5 ms. If it needs more, it starts again on a thread with
 * `checkSteps`. For comparison: an answer of 64 KiB with a pattern in each row takes 30,000.
 */
export const FIRST_CHECK_STEPS = 60_000

/**
 * How deep schemas may be nested during a check, because `$ref` can recurse as deep as the answer, and the stack is limited.
 */
export const MAX_CHECK_DEPTH = 1_000

/** How many errors are reported for an answer. More would not help a model to correct it. */
export const MAX_ERRORS = 20

/** How many steps generating an example may take, including checks. */
export const EXAMPLE_STEPS = 120_000

/** How many pointers to unenforced keywords are listed for a schema. */
export const MAX_IGNORED = 64

/** A pointer with more characters than this is counted, but not listed. */
export const MAX_IGNORED_LENGTH = 256

/** Thrown by `StepBudget.spend`. The public functions of this package catch it. */
export class StepBudgetExceeded extends Error {
  constructor() {
    super('the budget of steps is spent')
  }
}

/** Counts steps. A step stands for about 50 ns of work; less work counts as a fraction. */
export class StepBudget {
  readonly limit: number
  #left: number

  constructor(limit: number) {
    this.limit = limit
    this.#left = limit
  }

  /** Takes `count` steps, which may be a fraction. Throws `StepBudgetExceeded` if fewer are left. */
  spend(count: number): void {
    this.#left -= count
    if (this.#left < 0) throw new StepBudgetExceeded()
  }

  get isExceeded(): boolean {
    return this.#left < 0
  }

  /** The number of steps that were taken, at most `limit`. */
  get spent(): number {
    return Math.min(this.limit, this.limit - this.#left)
  }
}

/**
 * Returns `Object.keys`, and takes steps for it. An object with many keys is a hash table, in which each key takes about 130
 * ns.
 */
export function chargedKeys(value: object, budget: StepBudget): string[] {
  const keys = Object.keys(value)
  budget.spend(keys.length > 100 ? 3 * keys.length : keys.length / 2)
  return keys
}
