/** From a model's text to `response_content`: parses JSON answers and checks them against the caller's schema. */

import type { AnswerSchema } from '../json-schema/answer-schema.ts'
import { checkAnswer } from '../json-schema/check-answer.ts'
import { type ReadSchemaResult, readSchema } from '../json-schema/read-schema.ts'
import type { ResponseFormat, SchemaObject } from './job.ts'

export type Answer =
  | { readonly ok: true; readonly contentJson: string }
  | { readonly ok: false; readonly errors: readonly string[] }

/** A fence that models like to put around JSON, despite their instructions. */
const FENCED = /^```[a-zA-Z]*\s*\n([\s\S]*?)\n?```$/

export function readAnswer(text: string, format: ResponseFormat): Answer {
  if (format.format === 'text') return { ok: true, contentJson: JSON.stringify(text) }
  const trimmed = text.trim()
  const json = FENCED.exec(trimmed)?.[1]?.trim() ?? trimmed
  let value: unknown
  try {
    value = JSON.parse(json)
  } catch (error) {
    return { ok: false, errors: [`the answer is not JSON: ${(error as Error).message}`] }
  }
  if (format.schema) {
    const checked = checkAnswer(answerSchemaOf(format.schema), value)
    if (!checked.ok) return checked
  }
  // The model's own text, not the value written again: large integers keep their digits.
  return { ok: true, contentJson: json }
}

const read = new WeakMap<SchemaObject, ReadSchemaResult>()

/** Reads a caller's schema, once for each object. */
export function readSchemaOnce(schema: SchemaObject): ReadSchemaResult {
  let result = read.get(schema)
  if (result === undefined) {
    result = readSchema(schema)
    read.set(schema, result)
  }
  return result
}

/** The schema of an accepted job, ready for checking. */
export function answerSchemaOf(schema: SchemaObject): AnswerSchema {
  const result = readSchemaOnce(schema)
  // Such a schema is rejected when the job is created, so only a job of a version that accepted it can have one.
  if (!result.ok) throw new Error(`the job's schema is rejected: ${result.path} ${result.rule}`)
  return result.schema
}
