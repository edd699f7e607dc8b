/**
 * Writes distinct prompts that compress like prose. `prose.txt` has 765 sentences, which are divided in the middle. From the
 * word pairs of each half, a Markov chain makes new sentences, which fill passages of equal length. A prompt consists of
 * passages of one half. The same seed gives the same prompts.
 */
import { readFileSync } from 'node:fs'
import { constants, zstdCompressSync } from 'node:zlib'

export const PROMPT_BYTES = 10_240
/** zstd must compress each prompt to a share of its size between these limits. */
const COMPRESSED = { least: 0.35, most: 0.45 }
const LEVEL = 3
const HALVES = 2
const PASSAGES_EACH = 8000
const PASSAGE_BYTES = 512
/** The first three passages of a prompt differ from those of every other prompt. */
const FIRST = 3
const SEED = 26

/** A prompt replaces this text, whose characters have no meaning in JSON. */
export const PROMPT_PLACEHOLDER = '~'.repeat(PROMPT_BYTES)

type Random = () => number

/** The returned function makes numbers from 0 inclusive to 1 exclusive (mulberry32). */
function randomFrom(seed: number): Random {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

export class Prompts {
  readonly #random: Random
  /** Each half has one buffer with all its passages, which have the same length. */
  readonly #passages: readonly Buffer[]
  /** A prompt's first passages identify it. */
  readonly #written = new Set<number>()

  constructor(seed = SEED) {
    this.#random = randomFrom(seed)
    const words = readFileSync(new URL('./prose.txt', import.meta.url), 'utf8')
      .trim()
      .split(/\s+/)
    const length = Math.ceil(words.length / HALVES)
    this.#passages = Array.from({ length: HALVES }, (_, half) =>
      passagesFrom(words.slice(half * length, (half + 1) * length), this.#random),
    )
  }

  write(into: Buffer, place: number): void {
    const half = Math.floor(this.#random() * HALVES)
    const passages = this.#passages[half]
    if (passages === undefined) throw new Error(`there is no half ${half}`)
    let first = half
    for (let at = 0; at < PROMPT_BYTES; at += PASSAGE_BYTES) {
      const choice = Math.floor(this.#random() * PASSAGES_EACH)
      passages.copy(into, place + at, choice * PASSAGE_BYTES, (choice + 1) * PASSAGE_BYTES)
      if (at < FIRST * PASSAGE_BYTES) first = first * PASSAGES_EACH + choice
    }
    if (this.#written.has(first)) throw new Error('a prompt was written twice')
    this.#written.add(first)
  }
}

function passagesFrom(words: readonly string[], random: Random): Buffer {
  const places = new Map<string, number[]>()
  const samePair = words.map((word, at) => {
    const pair = `${word} ${words[at + 1]}`
    const all = places.get(pair) ?? []
    if (all.length === 0) places.set(pair, all)
    all.push(at)
    return all
  })
  const passages = Buffer.alloc(PASSAGES_EACH * PASSAGE_BYTES, ' ')
  let at = 0
  for (let written = 0; written < passages.length; ) {
    const same = samePair[at] ?? []
    at = ((same[Math.floor(random() * same.length)] ?? 0) + 1) % words.length
    written += passages.write(`${words[at]} `, written, 'latin1')
  }
  return passages
}

/** Throws unless these prompts compress like prose. Returns the median of their compressed shares. */
export function checkPrompts(count: number): number {
  const prompts = new Prompts()
  const prompt = Buffer.alloc(PROMPT_BYTES)
  const params = { [constants.ZSTD_c_compressionLevel]: LEVEL }
  const shares = Array.from({ length: count }, () => {
    prompts.write(prompt, 0)
    const share = zstdCompressSync(prompt, { params }).length / PROMPT_BYTES
    if (share < COMPRESSED.least || share > COMPRESSED.most) {
      const limits = `${COMPRESSED.least} to ${COMPRESSED.most}`
      throw new Error(`zstd compresses a prompt to ${share.toFixed(3)} of its size, not to ${limits}`)
    }
    return share
  }).toSorted((a, b) => a - b)
  return shares[Math.floor(count / 2)] ?? Number.NaN
}
