/** The script of a pool thread. It runs one task at a time, and replies with its result or error. */
import { setPriority } from 'node:os'
import { type MessagePort, parentPort } from 'node:worker_threads'
import { HeapTooSmall } from '../json-text/json-heap.ts'
import { type TaskInput, type TaskName, type TaskOutput, tasks } from './tasks.ts'

export interface TaskRequest<Name extends TaskName = TaskName> {
  readonly name: Name
  readonly input: TaskInput<Name>
}

export type TaskReply =
  | { readonly ok: true; readonly output: TaskOutput<TaskName> }
  | { readonly ok: false; readonly error: string; readonly outOfMemory: boolean }

/**
 * The niceness of the thread: lower in priority than the threads that serve HTTP and write to the database. It is not the
 * lowest priority: with a niceness of 19, a thread next to a busy model server in the same control group would get a
 * sixty-eighth of a core.
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
