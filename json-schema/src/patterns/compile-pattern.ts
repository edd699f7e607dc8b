/** Compiles the tree of a `pattern` to a program for the matcher, by Thompson's construction. */
import { type CharSet, costOf } from './char-set.ts'
import type { Assertion, PatternTree } from './read-pattern.ts'

/** `next` and `other` are indexes of instructions. */
export type Instruction =
  | { readonly op: 'set'; readonly set: CharSet; readonly cost: number }
  | { readonly op: 'assertion'; readonly assertion: Assertion }
  | { readonly op: 'split'; next: number; other: number }
  | { readonly op: 'jump'; next: number }
  | { readonly op: 'match' }

/** All matches share the buffers of a compiled pattern. This is safe, because a match never waits for anything. */
export interface PatternProgram {
  readonly code: readonly Instruction[]
  readonly isAnchored: boolean
  /** `ops`, `first` and `second` contain the instructions in a faster form: the operation and its two operands. */
  readonly ops: Uint8Array
  readonly first: Int32Array
  readonly second: Int32Array
  readonly visited: Uint32Array
  generation: number
  /** Instructions in `threads` wait for a character, `resumed` follow after it, and `pending` are left to visit. */
  readonly threads: Int32Array
  readonly resumed: Int32Array
  readonly pending: Int32Array
}

/** RANGE is the most frequent value of `ops`: a set with a single range, whose ends are the operands. */
export const RANGE = 0
export const SET = 1
export const SPLIT = 2
export const JUMP = 3
const ASSERTION = 4
export const MATCH = 5

export function compilePattern(tree: PatternTree): PatternProgram {
  const code: Instruction[] = []
  emit(tree, code)
  code.push({ op: 'match' })
  const size = code.length
  const [start] = code
  const program: PatternProgram = {
    code,
    isAnchored: start?.op === 'assertion' && start.assertion === 'start',
    ops: new Uint8Array(size),
    first: new Int32Array(size),
    second: new Int32Array(size),
    visited: new Uint32Array(size),
    generation: 0,
    threads: new Int32Array(size),
    resumed: new Int32Array(size + 1),
    pending: new Int32Array(3 * size + 2),
  }
  for (const [address, instruction] of code.entries()) pack(program, address, instruction)
  return program
}

function pack({ ops, first, second }: PatternProgram, address: number, instruction: Instruction): void {
  switch (instruction.op) {
    case 'set': {
      const { ranges, properties, negated } = instruction.set
      const isRange = ranges.length === 2 && properties.length === 0 && !negated
      ops[address] = isRange ? RANGE : SET
      first[address] = isRange ? (ranges[0] ?? 0) : instruction.cost
      second[address] = isRange ? (ranges[1] ?? 0) : 0
      return
    }
    case 'split':
      ops[address] = SPLIT
      first[address] = instruction.next
      second[address] = instruction.other
      return
    case 'jump':
      ops[address] = JUMP
      first[address] = instruction.next
      return
    case 'assertion':
      ops[address] = ASSERTION
      return
    case 'match':
      ops[address] = MATCH
  }
}

function emit(tree: PatternTree, code: Instruction[]): void {
  switch (tree.kind) {
    case 'set':
      code.push({ op: 'set', set: tree.set, cost: costOf(tree.set) })
      return
    case 'assertion':
      code.push({ op: 'assertion', assertion: tree.assertion })
      return
    case 'sequence':
      for (const part of tree.parts) emit(part, code)
      return
    case 'alternation':
      emitAlternation(tree.options, code)
      return
    case 'repeat':
      emitTimes(tree.part, tree.min - 1, code)
      if (tree.max === Number.POSITIVE_INFINITY && tree.min > 0) {
        emitPlus(tree.part, code)
        return
      }
      emitTimes(tree.part, Math.min(1, tree.min), code)
      if (tree.max === Number.POSITIVE_INFINITY) emitStar(tree.part, code)
      else emitOptional(tree.part, tree.max - tree.min, code)
  }
}

function emitAlternation(options: readonly PatternTree[], code: Instruction[]): void {
  const jumps: { op: 'jump'; next: number }[] = []
  for (const [index, option] of options.entries()) {
    if (index === options.length - 1) {
      emit(option, code)
      break
    }
    const split = { op: 'split' as const, next: code.length + 1, other: 0 }
    code.push(split)
    emit(option, code)
    const jump = { op: 'jump' as const, next: 0 }
    code.push(jump)
    jumps.push(jump)
    split.other = code.length
  }
  for (const jump of jumps) jump.next = code.length
}

function emitTimes(part: PatternTree, times: number, code: Instruction[]): void {
  for (let count = 0; count < times; count++) emit(part, code)
}

function emitPlus(part: PatternTree, code: Instruction[]): void {
  const start = code.length
  emit(part, code)
  code.push({ op: 'split', next: start, other: code.length + 1 })
}

function emitStar(part: PatternTree, code: Instruction[]): void {
  const split = { op: 'split' as const, next: code.length + 1, other: 0 }
  const start = code.push(split) - 1
  emit(part, code)
  code.push({ op: 'jump', next: start })
  split.other = code.length
}

function emitOptional(part: PatternTree, times: number, code: Instruction[]): void {
  const splits: { op: 'split'; next: number; other: number }[] = []
  for (let count = 0; count < times; count++) {
    const split = { op: 'split' as const, next: code.length + 1, other: 0 }
    code.push(split)
    splits.push(split)
    emit(part, code)
  }
  for (const split of splits) split.other = code.length
}
