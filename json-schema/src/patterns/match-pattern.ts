/**
 * Matches a text against a `pattern` in linear time, by Thompson's simulation: all possible matches advance together, one code
 * point at a time. For each character, the matcher visits each instruction at most once, and each visit is counted.
 * docs/internals/decisions.md explains why no library is used.
 */
import type { StepBudget } from '../limits.ts'
import { contains } from './char-set.ts'
import { JUMP, MATCH, type PatternProgram, RANGE, SET, SPLIT } from './compile-pattern.ts'
import type { Assertion } from './read-pattern.ts'

/** One step pays for this many visits of instructions. */
const VISITS_PER_STEP = 6

/** Stands for the missing character before the start and after the end of the text. */
const NO_CHARACTER = -1

/** As JSON Schema requires, the pattern may match anywhere in the text. Throws `StepBudgetExceeded`. */
export function matchesPattern(program: PatternProgram, text: string, budget: StepBudget): boolean {
  let resumed = 0
  let before = NO_CHARACTER
  let at = 0
  for (;;) {
    const here = at < text.length ? (text.codePointAt(at) ?? NO_CHARACTER) : NO_CHARACTER
    if (at === 0 || !program.isAnchored) program.resumed[resumed++] = 0
    if (resumed === 0) return false
    const threads = followToSets(program, resumed, before, here, at === 0, budget)
    if (threads === MATCHED) return true
    if (here < 0) return false
    resumed = consume(program, threads, here, budget)
    before = here
    at += here > 0xffff ? 2 : 1
  }
}

const MATCHED = -1

/** Follows all instructions that need no character. Returns how many instructions wait for a character, or MATCHED. */
function followToSets(
  program: PatternProgram,
  resumed: number,
  before: number,
  here: number,
  isStart: boolean,
  budget: StepBudget,
): number {
  const { code, ops, first, second, visited, threads, pending } = program
  const generation = nextGeneration(program)
  let waiting = 0
  let visits = 0
  let left = 0
  for (let index = 0; index < resumed; index++) pending[left++] = program.resumed[index] ?? 0
  while (left > 0) {
    const address = pending[--left] ?? 0
    if (visited[address] === generation) continue
    visited[address] = generation
    visits++
    const op = ops[address] ?? MATCH
    if (op <= SET) threads[waiting++] = address
    else if (op === SPLIT) {
      pending[left++] = second[address] ?? 0
      pending[left++] = first[address] ?? 0
    } else if (op === JUMP) pending[left++] = first[address] ?? 0
    else if (op === MATCH) return MATCHED
    else {
      const instruction = code[address]
      if (instruction?.op === 'assertion' && holds(instruction.assertion, before, here, isStart)) {
        pending[left++] = address + 1
      }
    }
  }
  budget.spend((visits + 1) / VISITS_PER_STEP)
  return waiting
}

/** Returns how many of the waiting instructions accept the character. */
function consume(program: PatternProgram, threads: number, here: number, budget: StepBudget): number {
  const { code, ops, first, second } = program
  let resumed = 0
  let cost = threads
  for (let index = 0; index < threads; index++) {
    const address = program.threads[index] ?? 0
    if (ops[address] === RANGE) {
      if (here >= (first[address] ?? 0) && here <= (second[address] ?? 0))
        program.resumed[resumed++] = address + 1
      continue
    }
    cost += first[address] ?? 0
    const instruction = code[address]
    if (instruction?.op === 'set' && contains(instruction.set, here)) program.resumed[resumed++] = address + 1
  }
  budget.spend(cost / VISITS_PER_STEP)
  return resumed
}

function nextGeneration(program: PatternProgram): number {
  if (program.generation === 0xffffffff) {
    program.visited.fill(0)
    program.generation = 0
  }
  return ++program.generation
}

function holds(assertion: Assertion, before: number, here: number, isStart: boolean): boolean {
  if (assertion === 'start') return isStart
  if (assertion === 'end') return here < 0
  return (isWordCharacter(before) !== isWordCharacter(here)) === (assertion === 'word-boundary')
}

function isWordCharacter(codePoint: number): boolean {
  return (
    (codePoint >= 0x61 && codePoint <= 0x7a) ||
    (codePoint >= 0x41 && codePoint <= 0x5a) ||
    (codePoint >= 0x30 && codePoint <= 0x39) ||
    codePoint === 0x5f
  )
}
