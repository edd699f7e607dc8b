/**
 * Turns a model's text into `response_content`: finds the JSON in it, parses it, and checks it against the caller's schema.
 * Also makes the conversation that asks a model to repair a wrong answer.
 */
import { checkAnswer, infiniteNumberError, StepBudget } from 'parley-json-schema'
import { type ReadJson, readJson } from '../json-text/read-json.ts'
import { type RawText, rawTextJson } from './job.ts'
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
  /** The answer may be valid, but checking it against the schema takes more work than permitted. */
  | { readonly ok: false; readonly kind: 'not checked'; readonly reason: string; readonly raw: RawText }

export interface AnswerLimits {
  readonly maxDepth: number
  readonly steps: number
}

/** For JSON, a verdict has only the position of the content in the text, so that a thread need not send the text back. */
export type AnswerVerdict =
  | { readonly kind: 'json'; readonly start: number; readonly end: number }
  | { readonly kind: 'text'; readonly contentJson: string }
  | { readonly kind: 'wrong'; readonly errors: readonly string[] }
  /** The check reached its limit of steps. The reason is a message for the author of the schema. */
  | { readonly kind: 'not checked'; readonly reason: string }

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
  // Keeps the model's own text, because serializing the value would change the digits of large integers.
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

type Bounds = readonly [start: number, end: number]

const FENCE = '```'
const FENCE_LINE = /[a-zA-Z]{0,40}[^\S\n]{0,200}\n/y
const MAX_INDENT = 8

const THOUGHTS = '<think>'
const THOUGHTS_END = '</think>'

function wholeJson(text: string): Bounds {
  return withoutFence(text, trimmedBounds(text, thoughtsEnd(text), text.length))
}

/**
 * Returns where the JSON may be if it is not the whole text, most likely first. If the server's chat template contains the
 * start of the model's thoughts, the text contains only their end.
 */
function otherBounds(text: string): Bounds[] {
  const end = text.lastIndexOf(THOUGHTS_END)
  const behind = trimmedBounds(text, end === -1 ? text.length : end + THOUGHTS_END.length, text.length)
  const blocks = [onlyBlock(text, thoughtsEnd(text)), onlyBlock(text, behind[0]), withoutFence(text, behind)]
  return blocks.filter((bounds) => bounds !== null && bounds[0] < bounds[1]) as Bounds[]
}

function thoughtsEnd(text: string): number {
  const start = text.length - text.trimStart().length
  if (!text.startsWith(THOUGHTS, start)) return start
  const end = text.indexOf(THOUGHTS_END, start)
  return end === -1 ? start : end + THOUGHTS_END.length
}

function withoutFence(text: string, [start, end]: Bounds): Bounds {
  if (!text.startsWith(FENCE, start) || !text.endsWith(FENCE, end)) return [start, end]
  const inside = blockStart(text, start)
  return inside === null || inside > end - FENCE.length
    ? [start, end]
    : trimmedBounds(text, inside, end - FENCE.length)
}

/** Returns null unless there is exactly one fenced block. A fence inside of JSON never starts a line. */
function onlyBlock(text: string, from: number): Bounds | null {
  const fences: number[] = []
  for (let at = text.indexOf(FENCE, from); at !== -1; at = text.indexOf(FENCE, at + FENCE.length)) {
    if (beginsLine(text, at, from) && fences.push(at) > 2) return null
  }
  const [open, close = text.lastIndexOf(FENCE)] = fences
  if (open === undefined) return null
  const inside = blockStart(text, open)
  return inside === null || inside > close ? null : trimmedBounds(text, inside, close)
}

function blockStart(text: string, fence: number): number | null {
  FENCE_LINE.lastIndex = fence + FENCE.length
  return FENCE_LINE.test(text) ? FENCE_LINE.lastIndex : null
}

function beginsLine(text: string, at: number, from: number): boolean {
  for (let before = at - 1; before >= from && at - before <= MAX_INDENT + 1; before--) {
    const character = text.charAt(before)
    if (character === '\n') return true
    if (character !== ' ' && character !== '\t') return false
  }
  return at - from <= MAX_INDENT
}

function trimmedBounds(text: string, from: number, to: number): Bounds {
  const part = text.slice(from, to)
  const start = to - part.trimStart().length
  return [start, Math.max(start, from + part.trimEnd().length)]
}

/** Replaces an empty answer in a repair request: Anthropic, Mistral and some chat templates reject an empty message. */
const EMPTY = '(no answer)'

/**
 * Returns the messages that ask for a repair. They repeat the schema, because it may be far above, or only in
 * `response_format`, which some servers do not show to the model.
 */
export function repairRequest(
  messagesJson: string,
  formatJson: string,
  raw: RawText,
  errors: readonly string[],
): string {
  const list = errors.map((error) => `- ${error}`).join('\n')
  const format = formatParts(formatJson)
  const schema =
    format.kind === 'schema' ? `\n\nThe answer must satisfy this JSON Schema:\n\n${format.schemaJson}` : ''
  const request = `Your answer does not match the requested format:\n${list}\nAnswer again with only the corrected JSON.${schema}`
  const isEmpty = typeof raw === 'string' && raw.trim() === ''
  const wrong = `{"role":"assistant","content":${rawTextJson(isEmpty ? EMPTY : raw)}}`
  const asked = JSON.stringify({ role: 'user', content: request })
  return `${messagesJson.slice(0, -1)},${wrong},${asked}]`
}
