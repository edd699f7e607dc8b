/** Checks a string against a schema's lengths, `format` and `pattern`. */
import type { Pattern, StringRules } from './answer-schema.ts'
import { truncate } from './error-text.ts'
import { compilePattern } from './patterns/compile-pattern.ts'
import { matchesPattern } from './patterns/match-pattern.ts'
import type { StepBudget } from './step-budget.ts'
import { formatSteps, meetsFormat } from './string-formats.ts'

/** Characters that native code examines per step of the budget. */
const CHARACTERS_PER_STEP = 16

/** Steps of the budget to compile one instruction of a pattern. */
const COMPILING_STEPS = 2

/** The requirement of the first rule that the text violates, or null. Throws `StepBudgetExceeded`. */
export function stringError(rules: StringRules, text: string, budget: StepBudget): string | null {
  const { minLength, maxLength, pattern, format } = rules
  // A text has at most as many code points as UTF-16 units, and at least half as many.
  if (text.length < 2 * minLength || text.length > maxLength) {
    const length = lengthOf(text, budget)
    if (length < minLength) return `must have at least ${minLength} characters`
    if (length > maxLength) return `must have at most ${maxLength} characters`
  }
  if (format !== null) {
    budget.spend(formatSteps(format, text))
    if (!meetsFormat(format, text)) return `must be a ${format}`
  }
  if (pattern !== null && !matches(pattern, text, budget)) {
    return `must match the pattern ${truncate(pattern.text)}`
  }
  return null
}

/** Whether the pattern matches somewhere in the text. Throws `StepBudgetExceeded`. */
export function matches(pattern: Pattern, text: string, budget: StepBudget): boolean {
  if (pattern.program === null) {
    // Before it is compiled, because patterns that are too large for the event loop are left to a thread.
    budget.spend(COMPILING_STEPS * pattern.size)
    pattern.program = compilePattern(pattern.tree)
  }
  return matchesPattern(pattern.program, text, budget)
}

/** The number of code points, which is what JSON Schema means by length. */
function lengthOf(text: string, budget: StepBudget): number {
  budget.spend(1 + text.length / CHARACTERS_PER_STEP)
  let pairs = 0
  for (let at = 0; at < text.length - 1; at++) {
    const isHigh = (text.charCodeAt(at) & 0xfc00) === 0xd800
    if (isHigh && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00) {
      pairs++
      at++
    }
  }
  return text.length - pairs
}
