/** The whole input of a run: its lines, each read and held against the rules before anything is sent. */
import { createHash } from 'node:crypto'
import type { Me } from '../../../client/src/index.ts'
import { JobCheck } from './check-job.ts'
import { type Line, splitLines } from './lines.ts'
import { type Reading, readExactly, readLine } from './read-job.ts'
import type { ToSend } from './run.ts'

export interface InvalidLine {
  readonly index: number
  readonly number: number
  readonly customId: string | undefined
  readonly problem: string
}

export interface Input {
  readonly lines: readonly Line[]
  readonly jobs: readonly ToSend[]
  readonly invalid: readonly InvalidLine[]
}

export interface InputRules extends Reading {
  readonly me: Me
  /** OpenAI's output has no other name for a line. */
  readonly needsCustomId: boolean
  /** A line that was sent before was valid then, whatever the tier allows now. */
  readonly wasSent: (index: number) => boolean
}

export function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}

export async function readJobs(bytes: Buffer, rules: InputRules): Promise<Input> {
  const lines = splitLines(bytes)
  const check = new JobCheck(rules.me)
  const jobs: ToSend[] = []
  const invalid: InvalidLine[] = []
  const customIds = new Map<string, number>()
  try {
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
  } finally {
    await check.close()
  }
  return { lines, jobs, invalid }
}

/** As OpenAI has it: each has one, and no two the same. */
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
  return `custom_id: is that of line ${other}, too`
}
