/**
 * What the threads of the pool do. Each task takes and returns texts and small facts: a parsed document would take as long
 * to cross between threads as to parse, on the thread that the pool exists to spare.
 */
import { type AnswerLimits, type AnswerVerdict, judgeAnswer } from '../job/answer.ts'
import { readCreateBody } from '../job/read-create-body.ts'
import { type SchemaFacts, schemaFacts } from '../job/read-schemas.ts'
import { countTokens } from '../tokens/count-tokens.ts'
import { readLargeCompletion } from '../upstreams/read-completion.ts'

export const tasks = {
  'count tokens': countTokens,
  'read body': readCreateBody,
  'read completion': readLargeCompletion,
  'read schema': ({ schemaJson }: { readonly schemaJson: string }): SchemaFacts => schemaFacts(schemaJson),
  'judge answer': ({ text, formatJson, limits }: JudgeAnswer): AnswerVerdict =>
    judgeAnswer(text, formatJson, limits),
}

interface JudgeAnswer {
  readonly text: string
  readonly formatJson: string
  readonly limits: AnswerLimits
}

export type TaskName = keyof typeof tasks
export type TaskInput<Name extends TaskName> = Parameters<(typeof tasks)[Name]>[0]
export type TaskOutput<Name extends TaskName> = Awaited<ReturnType<(typeof tasks)[Name]>>
