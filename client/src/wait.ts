/** Waits for jobs by polling with growing pauses, within the tier's rate limit, and through outages. */
import type { AnswerSchema } from './answer-schema.ts'
import { backoffMs } from './backoff.ts'
import { type Clock, pause, withTimeout } from './clock.ts'
import { type ParleyError, RateLimitError, TimeoutError } from './errors.ts'
import { type CallOptions, isTemporary } from './exchange.ts'
import type { EndedJob, Job } from './job.ts'
import type { ReadBudget } from './read-budget.ts'

const FIRST_PAUSE_MS = 500
const MAX_PAUSE_MS = 10_000
const GROWTH = 1.5
/** How long temporary failures are tolerated. */
const MAX_OUTAGE_MS = 300_000
/** Jobs of one `waitAll` that are polled concurrently. The others follow in order, because the server also runs jobs in order. */
const CONCURRENT_POLLS = 32

export interface WaitOptions<T = unknown> extends CallOptions {
  /** Timeout in seconds; if absent, it waits until the job has ended. Every job ends. */
  readonly timeout?: number | undefined
  /** Validates the answer and gives it a type. */
  readonly schema?: AnswerSchema<T> | undefined
}

export interface WaitAllOptions<T = unknown> extends WaitOptions<T> {
  /** Called when a job has ended, with its position among the IDs. */
  readonly onEnded?: ((job: EndedJob<T>, index: number) => void) | undefined
}

/** Reads a job once, without retries. */
export type Read<T> = (jobId: string, signal: AbortSignal) => Promise<Job<T>>

export interface WaitParts<T> {
  readonly read: Read<T>
  readonly budget: ReadBudget
  readonly clock: Clock
}

/** Throws `TimeoutError` after `timeout`, permanent errors immediately, and temporary ones after an outage of five minutes. */
export function waitFor<T>(
  jobId: string,
  { timeout = Number.POSITIVE_INFINITY, signal }: WaitOptions<T>,
  parts: WaitParts<T>,
): Promise<EndedJob<T>> {
  const timeoutError = () => {
    const message = `job ${jobId} did not finish within ${timeout} s; it continues on the server, and you can wait for it again`
    return new TimeoutError(message, { jobId })
  }
  return withTimeout(timeout, timeoutError, parts.clock, signal, (abortSignal) =>
    poll(jobId, abortSignal, parts),
  )
}

/** Resolves with the jobs in the order of the IDs. The first error ends the wait. */
export async function waitForAll<T>(
  jobIds: readonly string[],
  { timeout = Number.POSITIVE_INFINITY, signal, onEnded }: WaitAllOptions<T>,
  parts: WaitParts<T>,
): Promise<EndedJob<T>[]> {
  const ended = new Map<number, EndedJob<T>>()
  const queue = jobIds.entries()
  const timeoutError = () => {
    const open = jobIds.length - ended.size
    return new TimeoutError(
      `${open} of ${jobIds.length} jobs did not finish within ${timeout} s; they continue on the server`,
    )
  }
  await withTimeout(timeout, timeoutError, parts.clock, signal, async (abortSignal) => {
    const pollNext = async () => {
      for (const [index, jobId] of queue) {
        const job = await poll(jobId, abortSignal, parts)
        ended.set(index, job)
        onEnded?.(job, index)
      }
    }
    await Promise.all(Array.from({ length: Math.min(CONCURRENT_POLLS, jobIds.length) }, pollNext))
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
    let pauseMs = Math.min(FIRST_PAUSE_MS * GROWTH ** (reads - 1), MAX_PAUSE_MS)
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

/** Tracks consecutive failures of reads. */
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

  /** Returns how long to wait; throws the error if the outage has lasted too long. A rate limit is not an outage. */
  failed(error: ParleyError): number {
    if (error instanceof RateLimitError) {
      this.over()
      return backoffMs(1, error.retryAfter)
    }
    const nowMs = this.#clock.steadyMs()
    if (this.#failures === 0) this.#sinceMs = nowMs
    else if (nowMs - this.#sinceMs > MAX_OUTAGE_MS) throw error
    this.#failures += 1
    return backoffMs(this.#failures, error.retryAfter)
  }
}
