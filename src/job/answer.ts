/** From a model's text to `response_content`: parses JSON answers and checks them against the caller's schema. */
import { checkAnswer } from '../json-schema/check-answer.ts'
import { infiniteNumberError } from '../json-schema/finite-numbers.ts'
import { StepBudget } from '../json-schema/step-budget.ts'
import { type ReadJson, readJson } from '../json-text/read-json.ts'
import { otherBounds, wholeJson } from './find-json.ts'
import type { RawText } from './job.ts'
import { acceptedSchema } from './read-schemas.ts'
import { formatParts } from './response-format.ts'

export type Answer =
  | { readonly ok: true; readonly contentJson: string }
  | {
      readonly ok: false
      readonly kind: 'wrong'
      readonly errors: readonly string[]
      readonly raw: RawText
    }
  /** It is unknown whether the answer is valid: checking it against the schema takes more work than allowed. */
  | { readonly ok: false; readonly kind: 'not checked'; readonly reason: string; readonly raw: RawText }

export interface AnswerLimits {
  /** Maximum nesting of arrays and objects in a JSON answer. */
  readonly maxDepth: number
  /** Maximum steps for checking it, as counted by `StepBudget`. */
  readonly steps: number
}

/** The position of the content in the model's text, so that a thread does not have to send the text back. */
export type AnswerVerdict =
  | { readonly kind: 'json'; readonly start: number; readonly end: number }
  | { readonly kind: 'text'; readonly contentJson: string }
  | { readonly kind: 'wrong'; readonly errors: readonly string[] }
  /** The check exceeded its steps; the reason is for the author of the schema. */
  | { readonly kind: 'not checked'; readonly reason: string }

/** @param formatJson the job's `response_format` */
export function judgeAnswer(
  text: string,
  formatJson: string,
  { maxDepth, steps }: AnswerLimits,
): AnswerVerdict {
  const format = formatParts(formatJson)
  if (format.kind === 'text') return { kind: 'text', contentJson: JSON.stringify(text) }
  const { read, start, end } = readJsonIn(text, maxDepth)
  if (!read.ok) {
    return { kind: 'wrong', errors: [`the answer is ${read.tooDeep ? '' : 'not JSON: '}${read.error}`] }
  }
  const infinite = infiniteNumberError(read.value)
  if (infinite !== null) return { kind: 'wrong', errors: [infinite] }
  if (format.kind === 'schema') {
    const checked = checkAnswer(acceptedSchema(format.schemaJson), read.value, new StepBudget(steps))
    if (!checked.ok) {
      return checked.kind === 'wrong'
        ? { kind: 'wrong', errors: checked.errors }
        : { kind: 'not checked', reason: checked.reason }
    }
  }
  // The model's own text, not the value written again: large integers keep their digits.
  return { kind: 'json', start, end }
}

interface JsonIn {
  readonly read: ReadJson
  readonly start: number
  readonly end: number
}

function readJsonIn(text: string, maxDepth: number): JsonIn {
  const [start, end] = wholeJson(text)
  const whole = { read: readJson(text.slice(start, end), maxDepth), start, end }
  if (whole.read.ok) return whole
  let first: JsonIn | null = null
  for (const [start, end] of otherBounds(text)) {
    const other = { read: readJson(text.slice(start, end), maxDepth), start, end }
    if (other.read.ok) return other
    first ??= other
  }
  return first ?? whole
}

export function answerOf(text: string, verdict: AnswerVerdict): Answer {
  switch (verdict.kind) {
    case 'json':
      return { ok: true, contentJson: text.slice(verdict.start, verdict.end) }
    case 'text':
      return { ok: true, contentJson: verdict.contentJson }
    default:
      return { ok: false, ...verdict, raw: text }
  }
}
