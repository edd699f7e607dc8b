/**
 * Makes random numbers that a seed determines, for the simulation. The generator is sfc32, which passes the usual statistical
 * tests.
 */
export class SeededRandom {
  readonly #state = new Uint32Array(4)

  /** @param stream a number that distinguishes sequences of the same seed */
  constructor(seed: number, stream = 0) {
    this.#state.set([seed, Math.floor(seed / 2 ** 32), stream, 1])
    for (let round = 0; round < 12; round++) this.#next()
  }

  /**
   * Returns a number from 0 inclusive to 1 exclusive. As a property instead of a method, the function can be passed on alone.
   */
  readonly next = (): number => this.#next() / 2 ** 32

  whole(least: number, most: number): number {
    return least + Math.floor(this.next() * (most - least + 1))
  }

  chance(probability: number): boolean {
    return this.next() < probability
  }

  pick<T>(items: readonly T[]): T {
    const item = items[Math.floor(this.next() * items.length)]
    if (item === undefined) throw new Error('there is nothing to pick from')
    return item
  }

  readonly hex = (bytes: number): string => {
    let text = ''
    while (text.length < bytes * 2) text += this.#next().toString(16).padStart(8, '0')
    return text.slice(0, bytes * 2)
  }

  #next(): number {
    const [a = 0, b = 0, c = 0, d = 0] = this.#state
    const sum = (a + b + d) >>> 0
    this.#state[0] = b ^ (b >>> 9)
    this.#state[1] = c + (c << 3)
    this.#state[2] = ((c << 21) | (c >>> 11)) + sum
    this.#state[3] = d + 1
    return sum
  }
}
