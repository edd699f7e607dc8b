/**
 * Matches text against a `pattern` in linear time: all ways to match advance together, one code point at a time
 * (Thompson's simulation), so a pattern of m instructions takes at most m steps a character, and each is counted.
 *
 * Our own and not `re2js`: its cost cannot be counted while it runs. `(a|b)*a(a|b){400}$` holds it for 52 ms on
 * 1,000 characters, and charging each pattern for its worst case would refuse ordinary patterns on long texts. It also
 * means other things by `.`, `\s` and `\u0041` than the ECMA-262 patterns of JSON Schema.
 */
import { type CharSet, contains, costOf } from './char-set.ts'
import type { Edge, PatternTree } from './pattern-tree.ts'
import type { Steps } from './steps.ts'

/** One instruction; `next` and `other` are places in the program. */
type Instruction =
  | { readonly op: 'set'; readonly set: CharSet; readonly cost: number }
  | { readonly op: 'edge'; readonly edge: Edge }
  | { readonly op: 'split'; next: number; other: number }
  | { readonly op: 'jump'; next: number }
  | { readonly op: 'match' }

/** A pattern ready to match. Its buffers are reused by each match, which is safe as none of them ever waits. */
export interface PatternProgram {
  readonly code: readonly Instruction[]
  /** Per instruction, the generation that last visited it. */
  readonly visited: Uint32Array
  generation: number
  /** The instructions that wait for a character, those that follow them, and those still to be visited. */
  readonly threads: Int32Array
  readonly seeds: Int32Array
  readonly pending: Int32Array
}

/** Visits to an instruction per step of the budget. */
const VISITS_PER_STEP = 4

export function programOf(tree: PatternTree): PatternProgram {
  const code: Instruction[] = []
  write(tree, code)
  code.push({ op: 'match' })
  const size = code.length
  return {
    code,
    visited: new Uint32Array(size),
    generation: 0,
    threads: new Int32Array(size),
    seeds: new Int32Array(size + 1),
    pending: new Int32Array(3 * size + 2),
  }
}

function write(tree: PatternTree, code: Instruction[]): void {
  switch (tree.kind) {
    case 'set':
      code.push({ op: 'set', set: tree.set, cost: costOf(tree.set) })
      return
    case 'edge':
      code.push({ op: 'edge', edge: tree.edge })
      return
    case 'sequence':
      for (const part of tree.parts) write(part, code)
      return
    case 'choice':
      writeChoice(tree.options, code)
      return
    case 'repeat':
      for (let count = 0; count < tree.least; count++) write(tree.part, code)
      if (tree.most === Number.POSITIVE_INFINITY) writeStar(tree.part, code)
      else writeOptional(tree.part, tree.most - tree.least, code)
  }
}

function writeChoice(options: readonly PatternTree[], code: Instruction[]): void {
  const jumps: { op: 'jump'; next: number }[] = []
  for (const [index, option] of options.entries()) {
    if (index === options.length - 1) {
      write(option, code)
      break
    }
    const split = { op: 'split' as const, next: code.length + 1, other: 0 }
    code.push(split)
    write(option, code)
    const jump = { op: 'jump' as const, next: 0 }
    code.push(jump)
    jumps.push(jump)
    split.other = code.length
  }
  for (const jump of jumps) jump.next = code.length
}

function writeStar(part: PatternTree, code: Instruction[]): void {
  const split = { op: 'split' as const, next: code.length + 1, other: 0 }
  const start = code.push(split) - 1
  write(part, code)
  code.push({ op: 'jump', next: start })
  split.other = code.length
}

function writeOptional(part: PatternTree, times: number, code: Instruction[]): void {
  const splits: { op: 'split'; next: number; other: number }[] = []
  for (let count = 0; count < times; count++) {
    const split = { op: 'split' as const, next: code.length + 1, other: 0 }
    code.push(split)
    splits.push(split)
    write(part, code)
  }
  for (const split of splits) split.other = code.length
}

/** Whether the pattern matches anywhere in the text, as JSON Schema asks. Throws `StepsSpent`. */
export function matchesPattern(program: PatternProgram, text: string, steps: Steps): boolean {
  let seeds = 0
  let before = -1
  let at = 0
  for (;;) {
    const here = at < text.length ? (text.codePointAt(at) ?? -1) : -1
    program.seeds[seeds++] = 0
    const threads = spread(program, seeds, before, here, at === 0, steps)
    if (threads === MATCHED) return true
    if (here < 0) return false
    seeds = advance(program, threads, here, steps)
    before = here
    at += here > 0xffff ? 2 : 1
  }
}

const MATCHED = -1

/** Follows all instructions that take no character; gives the number of threads now waiting for one, or MATCHED. */
function spread(
  program: PatternProgram,
  seeds: number,
  before: number,
  here: number,
  isStart: boolean,
  steps: Steps,
): number {
  const { code, visited, threads, pending } = program
  const generation = nextGeneration(program)
  let waiting = 0
  let visits = 0
  let left = 0
  for (let index = 0; index < seeds; index++) pending[left++] = program.seeds[index] ?? 0
  while (left > 0) {
    const place = pending[--left] ?? 0
    if (visited[place] === generation) continue
    visited[place] = generation
    visits++
    const instruction = code[place]
    if (instruction === undefined) continue
    if (instruction.op === 'set') threads[waiting++] = place
    else if (instruction.op === 'match') return MATCHED
    else if (instruction.op === 'jump') pending[left++] = instruction.next
    else if (instruction.op === 'split') {
      pending[left++] = instruction.other
      pending[left++] = instruction.next
    } else if (holds(instruction.edge, before, here, isStart)) pending[left++] = place + 1
  }
  steps.spend((visits + 1) / VISITS_PER_STEP)
  return waiting
}

/** Lets each waiting thread take the character; the survivors become the seeds of the next place. */
function advance(program: PatternProgram, threads: number, here: number, steps: Steps): number {
  let seeds = 0
  let cost = 0
  for (let index = 0; index < threads; index++) {
    const place = program.threads[index] ?? 0
    const instruction = program.code[place]
    if (instruction?.op !== 'set') continue
    cost += instruction.cost
    if (contains(instruction.set, here)) program.seeds[seeds++] = place + 1
  }
  steps.spend(cost / VISITS_PER_STEP)
  return seeds
}

function nextGeneration(program: PatternProgram): number {
  if (program.generation === 0xffffffff) {
    program.visited.fill(0)
    program.generation = 0
  }
  return ++program.generation
}

function holds(edge: Edge, before: number, here: number, isStart: boolean): boolean {
  if (edge === 'start') return isStart
  if (edge === 'end') return here < 0
  return (isWord(before) !== isWord(here)) === (edge === 'word')
}

function isWord(codePoint: number): boolean {
  return (
    (codePoint >= 0x61 && codePoint <= 0x7a) ||
    (codePoint >= 0x41 && codePoint <= 0x5a) ||
    (codePoint >= 0x30 && codePoint <= 0x39) ||
    codePoint === 0x5f
  )
}
