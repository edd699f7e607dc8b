/**
 * Waits for jobs by reading each one repeatedly, with growing pauses. Servers up to version 0.2.0 need this, because they do
 * not have the route that waits. It also gets the error of a job that does not exist.
 */
import { type Clock, pause } from './clock.ts'
import { NotFoundError } from './errors.ts'
import { isTemporary } from './exchange.ts'
import type { EndedJob, Job } from './job.ts'
import type { Logger } from './logger.ts'
import type { OpenJobs } from './open-jobs.ts'
import { Outage } from './outage.ts'
import type { ReadBudget } from './read-budget.ts'

const FIRST_PAUSE_MS = 500
const MAX_PAUSE_MS = 10_000
const GROWTH = 1.5
/** At most this many jobs are read repeatedly at the same time. The other jobs are read later, in order. */
const CONCURRENT_POLLS = 32

export interface PollParts {
  /** Reads a job once, without retries. */
  readonly read: (jobId: string, signal: AbortSignal) => Promise<Job>
  /** Loads the rate limit into the budget. Needed only before several jobs are polled. */
  readonly learnBudget: (signal: AbortSignal) => Promise<void>
  readonly budget: ReadBudget
  readonly clock: Clock
  readonly logger: Logger
}

/** `job` is null if the server does not have the job. */
export interface Outcome {
  readonly jobId: string
  readonly job: EndedJob | null
}

/**
 * Resolves with the job when it has finished. Rejects with permanent errors at once, and with temporary ones after an outage of
 * five minutes.
 */
export async function poll(
  jobId: string,
  signal: AbortSignal,
  { read, budget, clock, logger }: Omit<PollParts, 'learnBudget'>,
): Promise<EndedJob> {
  const outage = new Outage(clock, logger)
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

/** Yields jobs as they finish. The first error ends the iteration. If the caller stops iterating, it must abort the signal. */
export async function* pollEach(
  open: OpenJobs,
  signal: AbortSignal,
  parts: PollParts,
): AsyncGenerator<Outcome, void, undefined> {
  if (open.size !== 1 || !open.isComplete) await parts.learnBudget(signal)
  const found: Outcome[] = []
  let wake = () => {}
  const pollNext = async () => {
    for (let jobId = await open.take(signal); jobId !== null; jobId = await open.take(signal)) {
      found.push({ jobId, job: await pollOrMissing(jobId, signal, parts) })
      wake()
    }
  }
  let isOver = false
  const count = open.isComplete ? Math.min(CONCURRENT_POLLS, open.size) : CONCURRENT_POLLS
  const all = Promise.all(Array.from({ length: count }, pollNext)).finally(() => {
    isOver = true
    wake()
  })
  // `await all` below throws the error. If the iteration ends before that, nobody needs the error.
  all.catch(() => {})
  while (!isOver || found.length > 0) {
    for (let next = found.shift(); next; next = found.shift()) yield next
    if (isOver) break
    await new Promise<void>((resolve) => {
      wake = resolve
      if (isOver || found.length > 0) resolve()
    })
  }
  await all
}

async function pollOrMissing(jobId: string, signal: AbortSignal, parts: PollParts): Promise<EndedJob | null> {
  try {
    return await poll(jobId, signal, parts)
  } catch (error) {
    if (error instanceof NotFoundError) return null
    throw error
  }
}
