/**
 * Limits the size of a caller's schema, and the time for which it may block the event loop. The limits must stop hostile
 * schemas, but allow any schema that a model could use. A budget of steps limits the time instead of a clock: the same schema
 * and answer always take the same number of steps, so tests can check the limits.
 */

export const MAX_SCHEMA_DEPTH = 64

/** Parts are subschemas, unenforced keywords, `required` names, and values in `enum` and `const`, including nested values. */
export const MAX_SCHEMA_PARTS = 20_000

/** `$ref`, `anyOf` and similar keywords may lead through this many schemas for the same value. */
export const MAX_IN_PLACE_DEPTH = 64

export const MAX_POINTER_LENGTH = 2_000

/** Longer addresses, in the `$id` of the root or in a `$ref`, are compared as text instead of URLs. */
export const MAX_ADDRESS_LENGTH = 500

export const MAX_PATTERN_LENGTH = 5_000

export const MAX_PATTERN_DEPTH = 50

/** Limits the instructions of a compiled pattern. Counted repetitions are expanded: `a{1000}` has 1,000 instructions. */
export const MAX_PATTERN_SIZE = 10_000

export const MAX_PATTERNS_SIZE = 50_000

/** The check of a short answer may take this many steps, about 15 ms. `checkSteps` allows more for longer answers. */
export const CHECK_STEPS = 300_000

/**
 * Each character of the answer allows this many more steps, about 0.4 µs. A pattern takes about one step per character, even if
 * every row of an answer has one.
 */
const STEPS_PER_CHARACTER = 8

export function checkSteps(characters: number): number {
  return CHECK_STEPS + STEPS_PER_CHARACTER * characters
}

/**
 * On the event loop, a check may take this many steps, about 5 ms. A longer check starts again on a thread with `checkSteps`.
 * For comparison, an answer of 64 KiB with a pattern in each row takes 30,000 steps.
 */
export const FIRST_CHECK_STEPS = 60_000

/** `$ref` can recurse as deep as the answer, and the stack is limited, so a check may nest schemas only this deep. */
export const MAX_CHECK_DEPTH = 1_000

/** A check reports at most this many errors, because more would not help a model to correct its answer. */
export const MAX_ERRORS = 20

export const EXAMPLE_STEPS = 120_000

export const MAX_IGNORED = 64

/** A longer pointer is counted, but not listed. */
export const MAX_IGNORED_LENGTH = 256

/** Thrown by `StepBudget.spend`. The public functions of this package catch it. */
export class StepBudgetExceeded extends Error {
  constructor() {
    super('the budget of steps is spent')
  }
}

/** A step stands for about 50 ns of work. Less work counts as a fraction. */
export class StepBudget {
  readonly limit: number
  #left: number

  constructor(limit: number) {
    this.limit = limit
    this.#left = limit
  }

  /** `count` may be a fraction. Throws `StepBudgetExceeded` if fewer steps are left. */
  spend(count: number): void {
    this.#left -= count
    if (this.#left < 0) throw new StepBudgetExceeded()
  }

  get isExceeded(): boolean {
    return this.#left < 0
  }

  /** Returns the number of steps that were taken, at most `limit`. */
  get spent(): number {
    return Math.min(this.limit, this.limit - this.#left)
  }
}

/** An object with many keys is a hash table, in which each key takes about 130 ns. The budget pays for that. */
export function chargedKeys(value: object, budget: StepBudget): string[] {
  const keys = Object.keys(value)
  budget.spend(keys.length > 100 ? 3 * keys.length : keys.length / 2)
  return keys
}
