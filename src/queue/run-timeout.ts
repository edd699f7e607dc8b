/** The run timeout (`jobs.run_timeout_seconds`): how long this node executes a job, all its calls included. */
import type { Clock } from '../clock.ts'
import type { Deadline } from '../job/stop.ts'
import type { ExecuteJob } from './execute.ts'
import { type ExecutionResult, internalFailure, type WaitingExecution } from './execution-result.ts'
import type { HeldJob } from './held-job.ts'

export interface RunOptions {
  readonly clock: Clock
  readonly execute: ExecuteJob
  readonly runTimeoutMs: number
  readonly onError: (message: string, error: unknown) => void
}

/** Executes the job, and stops it with the reason `deadline` when its time is over. Never rejects; null as `execute` returns it. */
export async function executeWithin(
  { job, stop }: HeldJob,
  { clock, execute, runTimeoutMs, onError }: RunOptions,
): Promise<ExecutionResult | WaitingExecution | null> {
  const deadline = new RunDeadline(clock, runTimeoutMs, () => stop.now('deadline'))
  stop.deadline = deadline
  try {
    return await execute(job, stop)
  } catch (error) {
    // A bug must not leave the job without an outcome.
    onError(`executing job ${job.id} failed`, error)
    return internalFailure()
  } finally {
    deadline.pause()
  }
}

/** A timer that can be paused. */
class RunDeadline implements Deadline {
  readonly #clock: Clock
  readonly #onOver: () => void
  #leftMs: number
  #startedMs: number
  #cancel: () => void

  constructor(clock: Clock, ms: number, onOver: () => void) {
    this.#clock = clock
    this.#onOver = onOver
    this.#leftMs = ms
    this.#startedMs = clock.steadyMs()
    this.#cancel = clock.after(ms, onOver)
  }

  pause(): void {
    this.#cancel()
    this.#leftMs -= this.#clock.steadyMs() - this.#startedMs
  }

  resume(): void {
    this.#startedMs = this.#clock.steadyMs()
    this.#cancel = this.#clock.after(Math.max(0, this.#leftMs), this.#onOver)
  }
}
