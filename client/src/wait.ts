/** Waits for jobs to end, by reading them again and again: ever more rarely, within the tier's reads, through outages. */
import type { AnswerSchema } from './answer-schema.ts'
import { backoffMs } from './backoff.ts'
import { type Clock, pause, within } from './clock.ts'
import { type ParleyError, RateLimitError, TimeoutError } from './errors.ts'
import { type CallOptions, isTemporary } from './exchange.ts'
import type { EndedJob, Job } from './job.ts'
import type { ReadBudget } from './read-budget.ts'

const FIRST_PAUSE_MS = 500
const LONGEST_PAUSE_MS = 10_000
const GROWTH = 1.5
/** Failures that may pass are borne for as long; after that the server is as good as gone. */
const OUTAGE_MS = 300_000
/** Jobs of one `waitAll` that are read in turn; the others come after them, as the server takes them in order, too. */
const AT_ONCE = 32

export interface WaitOptions<T = unknown> extends CallOptions {
  /** Seconds; without it the wait lasts until the job ends, which every job does. */
  readonly timeout?: number | undefined
  /** Checks the answer and makes it typed. */
  readonly schema?: AnswerSchema<T> | undefined
}

export interface WaitAllOptions<T = unknown> extends WaitOptions<T> {
  /** Called with each job as it is found ended, and its place among the ids. */
  readonly onEnded?: ((job: EndedJob<T>, index: number) => void) | undefined
}

/** Reads a job once, without trying again. */
export type Read<T> = (jobId: string, signal: AbortSignal) => Promise<Job<T>>

export interface WaitParts<T> {
  readonly read: Read<T>
  readonly budget: ReadBudget
  readonly clock: Clock
}

/** Throws `TimeoutError` after `timeout`, errors that will not pass at once, and others after an outage of five minutes. */
export function waitFor<T>(
  jobId: string,
  { timeout = Number.POSITIVE_INFINITY, signal }: WaitOptions<T>,
  parts: WaitParts<T>,
): Promise<EndedJob<T>> {
  const tooLate = () => {
    const message = `job ${jobId} has not ended within ${timeout} s; it goes on, and can be waited for again`
    return new TimeoutError(message, { jobId })
  }
  return within(timeout, tooLate, parts.clock, signal, (ending) => poll(jobId, ending, parts))
}

/** The jobs in the order of the ids. The first error ends it. */
export async function waitForAll<T>(
  jobIds: readonly string[],
  { timeout = Number.POSITIVE_INFINITY, signal, onEnded }: WaitAllOptions<T>,
  parts: WaitParts<T>,
): Promise<EndedJob<T>[]> {
  const ended = new Map<number, EndedJob<T>>()
  const line = jobIds.entries()
  const tooLate = () => {
    const open = jobIds.length - ended.size
    return new TimeoutError(`${open} of ${jobIds.length} jobs have not ended within ${timeout} s; they go on`)
  }
  await within(timeout, tooLate, parts.clock, signal, async (ending) => {
    const takeTurns = async () => {
      for (const [index, jobId] of line) {
        const job = await poll(jobId, ending, parts)
        ended.set(index, job)
        onEnded?.(job, index)
      }
    }
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, jobIds.length) }, takeTurns))
  })
  return jobIds.flatMap((_, index) => ended.get(index) ?? [])
}

async function poll<T>(
  jobId: string,
  signal: AbortSignal,
  { read, budget, clock }: WaitParts<T>,
): Promise<EndedJob<T>> {
  const outage = new Outage(clock)
  for (let reads = 1; ; reads++) {
    await budget.turn(signal)
    let pauseMs = Math.min(FIRST_PAUSE_MS * GROWTH ** (reads - 1), LONGEST_PAUSE_MS)
    try {
      const job = await read(jobId, signal)
      if (job.status === 'completed' || job.status === 'failed') return job
      outage.over()
    } catch (error) {
      signal.throwIfAborted()
      if (!isTemporary(error)) throw error
      pauseMs = Math.max(pauseMs, outage.failed(error))
    }
    await pause(pauseMs, clock, signal)
  }
}

/** Reads that fail one after the other. */
class Outage {
  readonly #clock: Clock
  #failures = 0
  #sinceMs = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  over(): void {
    this.#failures = 0
  }

  /** Returns how long to wait; throws the error when it has lasted too long. A limit is no outage. */
  failed(error: ParleyError): number {
    if (error instanceof RateLimitError) {
      this.over()
      return backoffMs(1, error.retryAfter)
    }
    const nowMs = this.#clock.steadyMs()
    if (this.#failures === 0) this.#sinceMs = nowMs
    else if (nowMs - this.#sinceMs > OUTAGE_MS) throw error
    this.#failures += 1
    return backoffMs(this.#failures, error.retryAfter)
  }
}
