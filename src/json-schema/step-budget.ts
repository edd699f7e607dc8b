/**
 * A budget of steps: what bounds the time that a caller's schema may take, without a clock. The same schema and
 * answer always spend the same number, so a test can hold it.
 */

/** Thrown by `Steps.spend`, and caught by the public functions of this folder: no caller ever sees it. */
export class StepsSpent extends Error {
  constructor() {
    super('the budget of steps is spent')
  }
}

/** Counts down. One step stands for some 50 ns of work; work that is cheaper is charged in fractions. */
export class Steps {
  readonly limit: number
  #left: number

  constructor(limit: number) {
    this.limit = limit
    this.#left = limit
  }

  /** Takes `count` steps (fractions allowed), or throws `StepsSpent` when that many are not left. */
  spend(count: number): void {
    this.#left -= count
    if (this.#left < 0) throw new StepsSpent()
  }

  /** How many have been taken; never more than `limit`. */
  get spent(): number {
    return Math.min(this.limit, this.limit - this.#left)
  }
}
