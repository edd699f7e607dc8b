/** Reads a job from an input line: a job creation object, or a line of an OpenAI batch file. */
import type { BatchJob } from '../../../client/src/index.ts'
import { parseExactly } from '../../json-text/read-json.ts'
import type { Line } from './lines.ts'
import { isOpenAiLine, openAiJob, openAiProblem } from './openai.ts'

type Fields = Readonly<Record<string, unknown>>

export interface Reading {
  /** New model names by old ones; `*` stands for every other name. */
  readonly models: ReadonlyMap<string, string>
  /** Fields of OpenAI's bodies to ignore. */
  readonly drop: readonly string[]
}

export type ReadLine =
  | {
      readonly ok: true
      readonly customId: string | undefined
      readonly openAi: boolean
      readonly job: unknown
    }
  | { readonly ok: false; readonly customId: string | undefined; readonly problem: string }

/** The job is not validated yet. */
export function readLine({ bytes }: Line, reading: Reading): ReadLine {
  let value: unknown
  try {
    value = JSON.parse(bytes.toString('utf8'))
  } catch (error) {
    return { ok: false, customId: undefined, problem: `is not JSON: ${(error as Error).message}` }
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return { ok: false, customId: undefined, problem: 'must be an object' }
  }
  const fields = value as Fields
  const customId = typeof fields.custom_id === 'string' ? fields.custom_id : undefined
  if (fields.custom_id !== undefined && customId === undefined) {
    return { ok: false, customId, problem: 'custom_id: must be a string' }
  }
  const openAi = isOpenAiLine(fields)
  const problem = openAi ? openAiProblem(fields, reading.drop) : null
  if (problem !== null) return { ok: false, customId, problem }
  return { ok: true, customId, openAi, job: jobOf(fields, reading) }
}

/** Reads a valid line for sending, with every digit of its numbers. */
export function readExactly({ bytes }: Line, reading: Reading): BatchJob {
  return jobOf(parseExactly(bytes.toString('utf8')) as Fields, reading) as BatchJob
}

function jobOf(fields: Fields, { models }: Reading): unknown {
  const { custom_id, ...own } = fields
  const job: Fields = isOpenAiLine(fields) ? { ...openAiJob(fields) } : own
  const model = models.get(String(job.model)) ?? models.get('*')
  return model === undefined ? job : { ...job, model }
}
