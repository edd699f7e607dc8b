/** Makes random numbers that depend on a seed. Tests print the seed. PARLEY_TEST_SEED=… repeats the choices of a run. */
import type { TestContext } from 'node:test'

export class Random {
  readonly seed: number
  #state: number

  constructor(seed = Number(process.env.PARLEY_TEST_SEED ?? Math.floor(Math.random() * 2 ** 32))) {
    this.seed = seed
    this.#state = seed
  }

  static of(t: TestContext): Random {
    const random = new Random()
    t.diagnostic(`PARLEY_TEST_SEED=${random.seed}`)
    return random
  }

  /** Returns an integer from 0 to `below` - 1 (mulberry32). */
  below(below: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below)
  }
}
