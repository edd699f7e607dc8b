/**
 * A budget of steps: bounds the time that a caller's schema may take, without a clock. The same schema and answer always take
 * the same number of steps, so a test can check the limit.
 */
import type { SchemaSource } from './answer-schema.ts'

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
export function chargedKeys(value: SchemaSource, budget: StepBudget): string[] {
  const keys = Object.keys(value)
  budget.spend(keys.length > 100 ? 3 * keys.length : keys.length / 2)
  return keys
}
