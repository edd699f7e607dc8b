/**
 * Runs the tasks of a pool thread, one at a time. Tasks take and return texts, bytes and small values, because passing a parsed
 * document between threads takes the main thread as long as parsing the document.
 */
import { setPriority } from 'node:os'
import { type MessagePort, parentPort } from 'node:worker_threads'
import { type AnswerLimits, type AnswerVerdict, judgeAnswer } from '../job/answer.ts'
import { readCreateBody } from '../job/read-create-body.ts'
import { type SchemaFacts, schemaFacts } from '../job/read-schemas.ts'
import { HeapTooSmall } from '../json-text/read-json.ts'
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
  /** The text as a JSON string, with which a wrong answer is quoted; null for other answers. */
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

export interface TaskRequest<Name extends TaskName = TaskName> {
  readonly name: Name
  readonly input: TaskInput<Name>
}

export type TaskReply =
  | { readonly ok: true; readonly output: TaskOutput<TaskName> }
  | { readonly ok: false; readonly error: string; readonly outOfMemory: boolean }

/**
 * The thread gets a lower priority than the threads that serve HTTP and write to the database. With the lowest priority (19), a
 * thread next to a busy model server in the same control group would get a sixty-eighth of a core.
 */
const NICENESS = 10

async function reply({ name, input }: TaskRequest): Promise<TaskReply> {
  // The compiler does not know that the name and the input belong together.
  const task = tasks[name] as (input: unknown) => TaskOutput<TaskName> | Promise<TaskOutput<TaskName>>
  try {
    return { ok: true, output: await task(input) }
  } catch (error) {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
    return { ok: false, error: text, outOfMemory: error instanceof HeapTooSmall }
  }
}

function serve(port: MessagePort): void {
  // On Linux, this sets the priority of the calling thread. Elsewhere it would set that of the whole process.
  if (process.platform === 'linux') setPriority(0, NICENESS)
  port.on('message', (request: TaskRequest) => {
    void reply(request).then((answer) => port.postMessage(answer))
  })
}

if (parentPort) serve(parentPort)
