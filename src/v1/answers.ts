/** Turns a finished job into what callers of `/v1` get: the text, why it ended (`finish_reason`), and the tokens used. */
import { type JobRecord, usageView } from '../job/job-record.ts'
import { failureOf, type V1Error } from './errors.ts'

export interface TextAnswer {
  readonly kind: 'answer'
  /** The text as a JSON string, such as `"Hello"`. */
  readonly textJson: string
  readonly finish: 'stop' | 'length' | 'content_filter'
}

export interface Tokens {
  readonly input: number
  readonly cached: number
  readonly output: number
  /** The cost in millionths of the currency; absent if the model has no price. */
  readonly cost?: number
}

/** @param isJson whether the format of the job is JSON. The answer is then JSON text, which callers get as a string. */
export function answerOf(
  record: JobRecord,
  isJson: boolean,
): TextAnswer | { kind: 'failed'; error: V1Error } {
  const { contentJson, errorJson, usageJson } = record
  const wasCut = usageJson?.includes('"finish_reason":"length"') ?? false
  if (contentJson !== null) {
    const textJson = isJson ? JSON.stringify(contentJson) : contentJson
    return { kind: 'answer', textJson, finish: wasCut ? 'length' : 'stop' }
  }
  const { code, raw_text = '' } = JSON.parse(errorJson ?? '{}')
  if (code === 'content_policy_violation') return { kind: 'answer', textJson: '""', finish: 'content_filter' }
  // Below `/v1`, callers get truncated JSON as text, although the job has failed because of it.
  if (wasCut) return { kind: 'answer', textJson: JSON.stringify(raw_text), finish: 'length' }
  return { kind: 'failed', error: failureOf(record) }
}

export function tokensOf({ status, usageJson }: JobRecord): Tokens {
  if (usageJson === null) return { input: 0, cached: 0, output: 0 }
  const { input_tokens, cached_input_tokens, output_tokens, cost } = usageView(status, JSON.parse(usageJson))
  const tokens = { input: input_tokens, cached: cached_input_tokens, output: output_tokens }
  return cost === undefined ? tokens : { ...tokens, cost }
}
