/** Starts a thread of the pool, runs tasks on it, and ends it. */
import { Worker } from 'node:worker_threads'
import { moduleURL } from '../module-url.ts'
import type { TaskInput, TaskName, TaskOutput, TaskReply, TaskRequest } from './thread.ts'

export class TaskFailed extends Error {
  /** Whether the task exceeded the memory limit of a thread, or would have. */
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
  isDead = false

  /**
   * @param heapMb the thread's heap limit in MiB. A thread that exceeds it dies. Tasks must not parse texts that may need far
   *   more (`read-json.ts`), because then the process may die
   */
  constructor(heapMb: number, script = moduleURL('./thread.ts', import.meta.url)) {
    const resourceLimits = { maxOldGenerationSizeMb: heapMb, maxYoungGenerationSizeMb: YOUNG_GENERATION_MB }
    this.#worker = new Worker(script, { resourceLimits })
    // The thread must not keep the process alive.
    this.#worker.unref()
    this.#worker.on('message', (reply: TaskReply) => {
      const pending = this.#take()
      if (reply.ok) pending?.resolve(reply.output)
      else pending?.reject(new TaskFailed(reply.error, reply.outOfMemory))
    })
    this.#worker.on('error', (error: Error & { code?: string }) => {
      this.#end(new TaskFailed(error.message, error.code === 'ERR_WORKER_OUT_OF_MEMORY'))
    })
    this.#worker.on('exit', () => this.#end(new TaskFailed('The thread ended.')))
  }

  /** Call this only while no task is running. Rejects with `TaskFailed`. */
  run<Name extends TaskName>(name: Name, input: TaskInput<Name>): Promise<TaskOutput<Name>> {
    if (this.isDead) return Promise.reject(new TaskFailed('The thread ended.'))
    return new Promise((resolve, reject) => {
      // The thread replies to each task with the output type of that task.
      this.#pending = { resolve: resolve as PendingTask['resolve'], reject }
      this.#worker.postMessage({ name, input } satisfies TaskRequest, movedWith(input))
    })
  }

  /**
   * Returns how much CPU time the thread has taken since it started, in milliseconds, even if it is busy; 0 if it has not
   * started or is dead.
   */
  async cpuMs(): Promise<number> {
    try {
      const { user, system } = await this.#worker.cpuUsage()
      return (user + system) / 1000
    } catch {
      return 0
    }
  }

  /** The task in progress fails with this message. */
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

/** This is enough for the short-lived objects of a parse. */
const YOUNG_GENERATION_MB = 48

/**
 * Returns the buffer of the input's bytes, which is moved to the thread, because copying 10 MB would block the event loop for
 * many milliseconds.
 */
function movedWith(input: TaskInput<TaskName>): ArrayBuffer[] {
  return 'bytes' in input && input.bytes.buffer instanceof ArrayBuffer ? [input.bytes.buffer] : []
}
