/** Reads and validates the whole input of a run before anything is sent. */
import { createHash } from 'node:crypto'
import type { BatchJob, Me } from '../../../client/src/index.ts'
import { parseExactly } from '../../json-text/read-json.ts'
import { JobCheck } from './check-job.ts'
import { type Line, splitLines } from './lines.ts'
import { isOpenAiLine, openAiJob, openAiProblem } from './openai.ts'
import type { InputJob } from './run.ts'

export interface InvalidLine {
  readonly index: number
  readonly number: number
  readonly customId: string | undefined
  readonly problem: string
}

export interface Input {
  readonly lines: readonly Line[]
  readonly jobs: readonly InputJob[]
  readonly invalid: readonly InvalidLine[]
}

export interface InputRules extends Reading {
  readonly me: Me
  /** OpenAI's output format identifies a line by its custom_id only. */
  readonly needsCustomId: boolean
  /** A line that was already sent was valid then, so it is not validated again: the tier may have changed since. */
  readonly wasSent: (index: number) => boolean
}

export function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}

export async function readJobs(bytes: Buffer, rules: InputRules): Promise<Input> {
  const lines = splitLines(bytes)
  const check = new JobCheck(rules.me)
  const jobs: InputJob[] = []
  const invalid: InvalidLine[] = []
  const customIds = new Map<string, number>()
  for (const line of lines) {
    const { index, number } = line
    const read = readLine(line, rules)
    const { customId } = read
    const problem = rules.wasSent(index)
      ? null
      : ((read.ok ? customIdProblem(read, rules, customIds) : read.problem) ??
        (read.ok ? await check.problemOf(read.job) : null))
    if (problem === null) jobs.push({ index, number, customId, job: () => readExactly(line, rules) })
    else invalid.push({ index, number, customId, problem })
    if (customId !== undefined) customIds.set(customId, number)
  }
  return { lines, jobs, invalid }
}

/** The rule of OpenAI's batch files: every line has a custom_id, and it is unique. */
function customIdProblem(
  { customId, openAi }: { readonly customId: string | undefined; readonly openAi: boolean },
  { needsCustomId }: InputRules,
  before: ReadonlyMap<string, number>,
): string | null {
  if (customId === undefined) {
    return needsCustomId ? 'custom_id: is required with --format openai' : null
  }
  const other = before.get(customId)
  if (other === undefined || !(openAi || needsCustomId)) return null
  return `custom_id: line ${other} has the same custom_id`
}

/** Reads a job from an input line: a job creation object, or a line of an OpenAI batch file. */
type Fields = Readonly<Record<string, unknown>>

interface Reading {
  /** New model names by old ones; `*` stands for every other name. */
  readonly models: ReadonlyMap<string, string>
  /** Fields of OpenAI's bodies to ignore. */
  readonly drop: readonly string[]
}

type ReadLine =
  | {
      readonly ok: true
      readonly customId: string | undefined
      readonly openAi: boolean
      readonly job: unknown
    }
  | { readonly ok: false; readonly customId: string | undefined; readonly problem: string }

/** The job is not validated yet. */
function readLine({ bytes }: Line, reading: Reading): ReadLine {
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
function readExactly({ bytes }: Line, reading: Reading): BatchJob {
  return jobOf(parseExactly(bytes.toString('utf8')) as Fields, reading) as BatchJob
}

function jobOf(fields: Fields, { models }: Reading): unknown {
  const { custom_id, ...own } = fields
  const job: Fields = isOpenAiLine(fields) ? { ...openAiJob(fields) } : own
  const model = models.get(String(job.model)) ?? models.get('*')
  return model === undefined ? job : { ...job, model }
}
