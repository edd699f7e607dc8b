/** Waits for one job, for all of several jobs, or for each of several jobs as it finishes. */
import { type AnswerSchema, withCheckedAnswer } from './answer-schema.ts'
import { timeoutScope, withTimeout } from './clock.ts'
import { TimeoutError } from './errors.ts'
import type { CallOptions } from './exchange.ts'
import type { EndedJob } from './job.ts'
import { type LongPollParts, longPollEach } from './long-poll.ts'
import { type JobIds, OpenJobs } from './open-jobs.ts'
import { type Outcome, type PollParts, poll, pollEach } from './poll.ts'

export interface WaitOptions<T = unknown> extends CallOptions {
  /**
   * Limits the call to this many seconds. If absent, the call waits until the job has finished, which every job does
   * eventually.
   */
  readonly timeout?: number | undefined
  /** Validates the answer, and determines its type. */
  readonly schema?: AnswerSchema<T> | undefined
}

export interface WaitAllOptions<T = unknown> extends WaitOptions<T> {
  /** Called when a job has finished, with the position of its ID. */
  readonly onEnded?: ((job: EndedJob<T>, index: number) => void) | undefined
}

export interface WaitEachOptions<T = unknown> extends WaitOptions<T> {
  /**
   * Called with the ID of a job that does not exist or has expired. If absent, the wait throws `NotFoundError` for such a job.
   */
  readonly onMissing?: ((jobId: string) => void) | undefined
}

export interface WaitParts extends PollParts, Omit<LongPollParts, 'waitFor' | 'leftS'> {}

const FOREVER = Number.POSITIVE_INFINITY

/**
 * Waits for one job. Throws `TimeoutError` after `timeout`, permanent errors at once, and temporary ones after an outage of
 * five minutes.
 */
export function waitForOne<T>(
  jobId: string,
  { timeout = FOREVER, signal, schema }: WaitOptions<T>,
  parts: WaitParts,
): Promise<EndedJob<T>> {
  const timeoutError = () => {
    const message = `job ${jobId} did not finish within ${timeout} s; it continues on the server, and you can wait for it again`
    return new TimeoutError(message, { jobId })
  }
  return withTimeout(timeout, timeoutError, parts.clock, signal, async (abortSignal) => {
    const wait = { waitFor: 'all', leftS: leftOf(timeout, parts) } as const
    for await (const { job } of outcomes(new OpenJobs([jobId], abortSignal), abortSignal, {
      ...parts,
      ...wait,
    })) {
      return withCheckedAnswer((job ?? (await poll(jobId, abortSignal, parts))) as EndedJob<T>, schema)
    }
    throw new Error(`the wait for job ${jobId} ended without a result`)
  })
}

/** Resolves with the jobs in the order of the IDs. The first error ends the wait. */
export async function waitForAll<T>(
  jobIds: readonly string[],
  { timeout = FOREVER, signal, schema, onEnded }: WaitAllOptions<T>,
  parts: WaitParts,
): Promise<EndedJob<T>[]> {
  const ended = new Map<string, EndedJob<T>>()
  const positions = new Map<string, number[]>()
  for (const [index, jobId] of jobIds.entries()) {
    positions.set(jobId, [...(positions.get(jobId) ?? []), index])
  }
  const timeoutError = () => {
    const open = jobIds.filter((jobId) => !ended.has(jobId)).length
    return new TimeoutError(
      `${open} of ${jobIds.length} jobs did not finish within ${timeout} s; they continue on the server`,
    )
  }
  const wait = { waitFor: onEnded ? 'any' : 'all', leftS: leftOf(timeout, parts) } as const
  await withTimeout(timeout, timeoutError, parts.clock, signal, async (abortSignal) => {
    const open = new OpenJobs(jobIds, abortSignal)
    for await (const { jobId, job } of outcomes(open, abortSignal, { ...parts, ...wait })) {
      const found = (job ?? (await poll(jobId, abortSignal, parts))) as EndedJob<T>
      const checked = await withCheckedAnswer(found, schema)
      ended.set(jobId, checked)
      for (const index of positions.get(jobId) ?? []) onEnded?.(checked, index)
    }
  })
  return jobIds.flatMap((jobId) => ended.get(jobId) ?? [])
}

/**
 * Yields jobs in the order in which they finish. The iteration ends with the first error, or when the caller leaves the loop.
 */
export async function* waitForEach<T>(
  jobIds: JobIds,
  { timeout = FOREVER, signal: outer, schema, onMissing }: WaitEachOptions<T>,
  parts: WaitParts,
): AsyncGenerator<EndedJob<T>, void, undefined> {
  const timeoutError = () =>
    new TimeoutError(`some jobs did not finish within ${timeout} s; they continue on the server`)
  const { signal, end } = timeoutScope(timeout, timeoutError, parts.clock, outer)
  const wait = { waitFor: 'any', leftS: leftOf(timeout, parts) } as const
  try {
    for await (const { jobId, job } of outcomes(new OpenJobs(jobIds, signal), signal, {
      ...parts,
      ...wait,
    })) {
      if (job === null && onMissing) onMissing(jobId)
      else yield await withCheckedAnswer((job ?? (await poll(jobId, signal, parts))) as EndedJob<T>, schema)
    }
  } finally {
    end()
  }
}

/** A server may be too old for long polling. The jobs are then polled one by one. */
async function* outcomes(
  open: OpenJobs,
  signal: AbortSignal,
  parts: WaitParts & LongPollParts,
): AsyncGenerator<Outcome, void, undefined> {
  const isDone = yield* longPollEach(open, signal, parts)
  if (!isDone) yield* pollEach(open, signal, parts)
}

function leftOf(timeoutS: number, { clock }: WaitParts): () => number {
  const startedMs = clock.steadyMs()
  return () => timeoutS - (clock.steadyMs() - startedMs) / 1000
}
