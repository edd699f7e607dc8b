/**
 * The tasks of the pool's threads. They take and return texts and small values, because passing a parsed document between
 * threads takes the main thread as long as parsing the document.
 */
import { type AnswerLimits, type AnswerVerdict, judgeAnswer } from '../job/answer.ts'
import { readCreateBody } from '../job/read-create-body.ts'
import { type SchemaFacts, schemaFacts } from '../job/read-schemas.ts'
import { countTokens } from '../tokens/count-tokens.ts'
import { readLargeCompletion } from '../upstreams/read-completion.ts'
import { readBatchLine, readV1Body } from '../v1/read-body.ts'

export const tasks = {
  'count tokens': countTokens,
  'read body': readCreateBody,
  'read v1 body': readV1Body,
  'read batch line': readBatchLine,
  'read completion': readLargeCompletion,
  'read schema': ({ schemaJson }: { readonly schemaJson: string }): SchemaFacts => schemaFacts(schemaJson),
  'judge answer': judgeLongAnswer,
}

interface JudgeAnswer {
  readonly text: string
  readonly formatJson: string
  readonly limits: AnswerLimits
}

interface JudgedAnswer {
  readonly verdict: AnswerVerdict
  /** The text as a JSON string, to quote a wrong answer; null for other answers. */
  readonly textJson: string | null
}

function judgeLongAnswer({ text, formatJson, limits }: JudgeAnswer): JudgedAnswer {
  const verdict = judgeAnswer(text, formatJson, limits)
  const isWrong = verdict.kind === 'wrong' || verdict.kind === 'not checked'
  return { verdict, textJson: isWrong ? JSON.stringify(text) : null }
}

export type TaskName = keyof typeof tasks
export type TaskInput<Name extends TaskName> = Parameters<(typeof tasks)[Name]>[0]
export type TaskOutput<Name extends TaskName> = Awaited<ReturnType<(typeof tasks)[Name]>>
