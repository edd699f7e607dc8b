/** From a model's text to `response_content`: parses JSON answers and checks them against the caller's schema. */
import { checkAnswer } from '../json-schema/check-answer.ts'
import { StepBudget } from '../json-schema/step-budget.ts'
import { readJson } from '../json-text/read-json.ts'
import type { RawText } from './job.ts'
import { acceptedSchema } from './read-schemas.ts'
import { formatParts } from './response-format.ts'

export type Answer =
  | { readonly ok: true; readonly contentJson: string }
  | { readonly ok: false; readonly errors: readonly string[]; readonly raw: RawText }

export interface AnswerLimits {
  /** Levels of arrays and objects in a JSON answer. */
  readonly maxDepth: number
  /** Steps that checking it may take, as `StepBudget` counts them. */
  readonly steps: number
}

/** Where the content stands in the model's text, so that a thread need not send the text back. */
export type AnswerVerdict =
  | { readonly kind: 'json'; readonly start: number; readonly end: number }
  | { readonly kind: 'text'; readonly contentJson: string }
  | { readonly kind: 'wrong'; readonly errors: readonly string[] }
  | { readonly kind: 'out of steps'; readonly errors: readonly string[] }

/** @param formatJson the job's `response_format` */
export function judgeAnswer(
  text: string,
  formatJson: string,
  { maxDepth, steps }: AnswerLimits,
): AnswerVerdict {
  const format = formatParts(formatJson)
  if (format.kind === 'text') return { kind: 'text', contentJson: JSON.stringify(text) }
  const [start, end] = jsonBounds(text)
  const read = readJson(text.slice(start, end), maxDepth)
  if (!read.ok) {
    return { kind: 'wrong', errors: [`the answer is ${read.tooDeep ? '' : 'not JSON: '}${read.error}`] }
  }
  if (format.kind === 'schema') {
    const budget = new StepBudget(steps)
    const checked = checkAnswer(acceptedSchema(format.schemaJson), read.value, budget)
    if (!checked.ok) return { kind: budget.isExceeded ? 'out of steps' : 'wrong', errors: checked.errors }
  }
  // The model's own text, not the value written again: large integers keep their digits.
  return { kind: 'json', start, end }
}

export function answerOf(text: string, verdict: AnswerVerdict): Answer {
  switch (verdict.kind) {
    case 'json':
      return { ok: true, contentJson: text.slice(verdict.start, verdict.end) }
    case 'text':
      return { ok: true, contentJson: verdict.contentJson }
    default:
      return { ok: false, errors: verdict.errors, raw: text }
  }
}

const FENCE = '```'
/** What follows the fence that opens a block: the name of a language, and a line break. */
const FENCE_LINE = /[a-zA-Z]{0,40}[^\S\n]{0,200}\n/y

/**
 * Where the JSON begins and ends: without white space around it, and without the fence that models like to put around
 * it, despite their instructions. In linear time, whatever the model wrote.
 */
function jsonBounds(text: string): [start: number, end: number] {
  const [start, end] = trimmedBounds(text, 0, text.length)
  if (!text.startsWith(FENCE, start) || !text.endsWith(FENCE, end)) return [start, end]
  FENCE_LINE.lastIndex = start + FENCE.length
  if (!FENCE_LINE.test(text)) return [start, end]
  const inside = FENCE_LINE.lastIndex
  return inside > end - FENCE.length ? [start, end] : trimmedBounds(text, inside, end - FENCE.length)
}

function trimmedBounds(text: string, from: number, to: number): [start: number, end: number] {
  const part = text.slice(from, to)
  const start = to - part.trimStart().length
  return [start, Math.max(start, from + part.trimEnd().length)]
}
