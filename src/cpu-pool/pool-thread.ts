/** The pool's side of one of its threads. */
import { Worker } from 'node:worker_threads'
import { moduleURL } from '../module-url.ts'
import type { TaskInput, TaskName, TaskOutput } from './tasks.ts'
import type { TaskReply, TaskRequest } from './thread.ts'

/** The rejection of a failed task; the pool itself continues. */
export class TaskFailed extends Error {
  /** Whether the task exceeded the memory limit of a thread. */
  readonly outOfMemory: boolean

  constructor(message: string, outOfMemory = false) {
    super(message)
    this.outOfMemory = outOfMemory
  }
}

interface PendingTask {
  readonly resolve: (output: TaskOutput<TaskName>) => void
  readonly reject: (error: TaskFailed) => void
}

export class PoolThread {
  readonly #worker: Worker
  #pending: PendingTask | null = null
  /** A dead thread takes no further tasks. */
  isDead = false

  /** @param heapMb the heap limit; a thread that exceeds it dies, but the process survives */
  constructor(heapMb: number, script = moduleURL('./thread.ts', import.meta.url)) {
    const resourceLimits = { maxOldGenerationSizeMb: heapMb, maxYoungGenerationSizeMb: YOUNG_GENERATION_MB }
    this.#worker = new Worker(script, { resourceLimits })
    // The thread does not keep the process alive.
    this.#worker.unref()
    this.#worker.on('message', (reply: TaskReply) => {
      const pending = this.#take()
      if (reply.ok) pending?.resolve(reply.output)
      else pending?.reject(new TaskFailed(reply.error))
    })
    this.#worker.on('error', (error: Error & { code?: string }) => {
      this.#end(new TaskFailed(error.message, error.code === 'ERR_WORKER_OUT_OF_MEMORY'))
    })
    this.#worker.on('exit', () => this.#end(new TaskFailed('The thread ended.')))
  }

  /** Runs one task at a time. Rejects with `TaskFailed`. */
  run<Name extends TaskName>(name: Name, input: TaskInput<Name>): Promise<TaskOutput<Name>> {
    // A dead thread would ignore the message.
    if (this.isDead) return Promise.reject(new TaskFailed('The thread ended.'))
    return new Promise((resolve, reject) => {
      // The output has the type of the task's name.
      this.#pending = { resolve: resolve as PendingTask['resolve'], reject }
      this.#worker.postMessage({ name, input } satisfies TaskRequest, movedWith(input))
    })
  }

  /** The CPU time of the thread so far, even while it is busy; 0 before it starts and after it is dead. */
  async cpuMs(): Promise<number> {
    try {
      const { user, system } = await this.#worker.cpuUsage()
      return (user + system) / 1000
    } catch {
      return 0
    }
  }

  /** Terminates the thread during its task, which fails with the message. */
  end(message: string): void {
    this.#end(new TaskFailed(message))
    void this.close()
  }

  async close(): Promise<void> {
    await this.#worker.terminate()
  }

  #take(): PendingTask | null {
    const pending = this.#pending
    this.#pending = null
    return pending
  }

  #end(error: TaskFailed): void {
    this.isDead = true
    this.#take()?.reject(error)
  }
}

/** Enough for the short-lived objects of a parse; what `--max-semi-space-size` grants the main thread is not needed here. */
const YOUNG_GENERATION_MB = 48

/** The bytes of a body are moved to the thread: copying 10 MB would block the event loop for many milliseconds. */
function movedWith(input: TaskInput<TaskName>): ArrayBuffer[] {
  return 'bytes' in input && input.bytes.buffer instanceof ArrayBuffer ? [input.bytes.buffer] : []
}
