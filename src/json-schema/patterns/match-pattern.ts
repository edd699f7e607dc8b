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
import type { Steps } from '../step-budget.ts'

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
  /** Whether a match can begin at the start of the text only. */
  readonly isAnchored: boolean
  /** The code again, packed: what each instruction is, and its two numbers. */
  readonly ops: Uint8Array
  readonly first: Int32Array
  readonly second: Int32Array
  /** Per instruction, the generation that last visited it. */
  readonly visited: Uint32Array
  generation: number
  /** The instructions that wait for a character, those that follow them, and those still to be visited. */
  readonly threads: Int32Array
  readonly seeds: Int32Array
  readonly pending: Int32Array
}

/** Values of `ops`. RANGE is the usual set, of one range: its numbers are the range itself. */
const RANGE = 0
const SET = 1
const SPLIT = 2
const JUMP = 3
const EDGE = 4
const MATCH = 5

/** Visits to an instruction per step of the budget. */
const VISITS_PER_STEP = 6

export function programOf(tree: PatternTree): PatternProgram {
  const code: Instruction[] = []
  write(tree, code)
  code.push({ op: 'match' })
  const size = code.length
  const [start] = code
  const program: PatternProgram = {
    code,
    isAnchored: start?.op === 'edge' && start.edge === 'start',
    ops: new Uint8Array(size),
    first: new Int32Array(size),
    second: new Int32Array(size),
    visited: new Uint32Array(size),
    generation: 0,
    threads: new Int32Array(size),
    seeds: new Int32Array(size + 1),
    pending: new Int32Array(3 * size + 2),
  }
  for (const [place, instruction] of code.entries()) pack(program, place, instruction)
  return program
}

function pack({ ops, first, second }: PatternProgram, place: number, instruction: Instruction): void {
  switch (instruction.op) {
    case 'set': {
      const { ranges, properties, negated } = instruction.set
      const isRange = ranges.length === 2 && properties.length === 0 && !negated
      ops[place] = isRange ? RANGE : SET
      first[place] = isRange ? (ranges[0] ?? 0) : instruction.cost
      second[place] = isRange ? (ranges[1] ?? 0) : 0
      return
    }
    case 'split':
      ops[place] = SPLIT
      first[place] = instruction.next
      second[place] = instruction.other
      return
    case 'jump':
      ops[place] = JUMP
      first[place] = instruction.next
      return
    case 'edge':
      ops[place] = EDGE
      return
    case 'match':
      ops[place] = MATCH
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
      writeTimes(tree.part, tree.least - 1, code)
      if (tree.most === Number.POSITIVE_INFINITY && tree.least > 0) {
        writePlus(tree.part, code)
        return
      }
      writeTimes(tree.part, Math.min(1, tree.least), code)
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

function writeTimes(part: PatternTree, times: number, code: Instruction[]): void {
  for (let count = 0; count < times; count++) write(part, code)
}

function writePlus(part: PatternTree, code: Instruction[]): void {
  const start = code.length
  write(part, code)
  code.push({ op: 'split', next: start, other: code.length + 1 })
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
    if (at === 0 || !program.isAnchored) program.seeds[seeds++] = 0
    if (seeds === 0) return false
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
  const { code, ops, first, second, visited, threads, pending } = program
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
    const op = ops[place] ?? MATCH
    if (op <= SET) threads[waiting++] = place
    else if (op === SPLIT) {
      pending[left++] = second[place] ?? 0
      pending[left++] = first[place] ?? 0
    } else if (op === JUMP) pending[left++] = first[place] ?? 0
    else if (op === MATCH) return MATCHED
    else {
      const instruction = code[place]
      const isEdge = instruction?.op === 'edge' && holds(instruction.edge, before, here, isStart)
      if (isEdge) pending[left++] = place + 1
    }
  }
  steps.spend((visits + 1) / VISITS_PER_STEP)
  return waiting
}

/** Lets each waiting thread take the character; the survivors become the seeds of the next place. */
function advance(program: PatternProgram, threads: number, here: number, steps: Steps): number {
  const { code, ops, first, second } = program
  let seeds = 0
  let cost = threads
  for (let index = 0; index < threads; index++) {
    const place = program.threads[index] ?? 0
    if (ops[place] === RANGE) {
      if (here >= (first[place] ?? 0) && here <= (second[place] ?? 0)) program.seeds[seeds++] = place + 1
      continue
    }
    cost += first[place] ?? 0
    const instruction = code[place]
    if (instruction?.op === 'set' && contains(instruction.set, here)) program.seeds[seeds++] = place + 1
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
