/**
 * Limits how large a caller's schema may be, and how long it may block the event loop. A schema may be hostile; the limits leave
 * room for every schema that a model could use. A budget of steps bounds time without a clock: the same schema and answer always
 * take the same number of steps, so tests can check the limit.
 */

/** Limits the nesting of subschemas, and of values inside `enum` and `const`. */
export const MAX_SCHEMA_DEPTH = 64

/** Limits the sum of subschemas, unenforced keywords, names in `required`, and values in `enum` and `const` (nested ones too). */
export const MAX_SCHEMA_PARTS = 20_000

/** Limits how many schemas `$ref`, `anyOf` and others lead through for the same value. */
export const MAX_IN_PLACE_DEPTH = 64

/** Limits the characters of the pointer in a `$ref`. */
export const MAX_POINTER_LENGTH = 2_000

/**
 * A root's `$id` and the address in a `$ref` are compared as URLs if they have at most this many characters; longer ones are
 * compared as text.
 */
export const MAX_ADDRESS_LENGTH = 500

/** Limits the characters of one `pattern`. */
export const MAX_PATTERN_LENGTH = 5_000

/** Limits the nesting of groups in a `pattern`. */
export const MAX_PATTERN_DEPTH = 50

/** Limits the instructions of one `pattern` after its counted repetitions are expanded: `a{1000}` has 1,000. */
export const MAX_PATTERN_SIZE = 10_000

/** Limits the instructions of all patterns of a schema together. */
export const MAX_PATTERNS_SIZE = 50_000

/** The steps that a check of a short answer may take, about 15 ms. Longer answers may take more: see `checkSteps`. */
export const CHECK_STEPS = 300_000

/**
 * Additional steps for each character of the answer: about 0.4 µs. A pattern that every character must match takes about one
 * step per character, and so do the rows of a table with a pattern in each.
 */
const STEPS_PER_CHARACTER = 8

/** Returns the budget for checking an answer of this many characters. */
export function checkSteps(characters: number): number {
  return CHECK_STEPS + STEPS_PER_CHARACTER * characters
}

/**
 * The steps that a check may take on the event loop, about 5 ms. A check that needs more starts again on a thread, with
 * `checkSteps`. An answer of 64 KiB with a pattern in every row takes 30,000.
 */
export const FIRST_CHECK_STEPS = 60_000

/** Limits the nesting of schemas during a check, and so the stack: `$ref` may recurse as deep as the answer. */
export const MAX_CHECK_DEPTH = 1_000

/** Maximum errors reported for one answer. More would not help a model to repair it. */
export const MAX_ERRORS = 20

/** The steps that generating one example may take, including its checks. */
export const EXAMPLE_STEPS = 120_000

/** At most this many pointers to unenforced keywords are listed for one schema. */
export const MAX_IGNORED = 64

/** A pointer with more characters is counted, but not listed. */
export const MAX_IGNORED_LENGTH = 256

/** Thrown by `StepBudget.spend`; the public functions of this folder catch it. */
export class StepBudgetExceeded extends Error {
  constructor() {
    super('the budget of steps is spent')
  }
}

/** Counts steps. One step stands for about 50 ns of work; cheaper work costs fractions. */
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

  /** Returns the number of steps taken, never more than `limit`. */
  get spent(): number {
    return Math.min(this.limit, this.limit - this.#left)
  }
}

/** Returns `Object.keys`, charged to the budget. Objects with many keys are hash tables, where a key takes about 130 ns. */
export function chargedKeys(value: object, budget: StepBudget): string[] {
  const keys = Object.keys(value)
  budget.spend(keys.length > 100 ? 3 * keys.length : keys.length / 2)
  return keys
}
