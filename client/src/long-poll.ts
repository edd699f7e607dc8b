/**
 * Waits for jobs by long polling: a request contains up to a hundred jobs, and the server responds when jobs have finished. For
 * a thousand jobs, this needs a dozen reads. Reading each job repeatedly would need thousands.
 */
import { type Clock, pause } from './clock.ts'
import { type CallOptions, isTemporary } from './exchange.ts'
import { type JobsAnswer, type JobsRoute, MAX_JOBS } from './jobs-route.ts'
import type { Logger } from './logger.ts'
import type { OpenJobs } from './open-jobs.ts'
import { Outage } from './outage.ts'
import type { Outcome } from './poll.ts'
import type { ReadBudget } from './read-budget.ts'

/** The server is asked to wait for at most this long, because proxies usually abort requests after 60 s. */
const MAX_WAIT_S = 50
/**
 * If the wait includes more jobs than a request can contain, the others could finish meanwhile. The server is therefore asked
 * to wait only briefly.
 */
const MAX_PARTIAL_WAIT_S = 5
/**
 * With `any`, after a read with finished jobs, the next read comes after a quarter of the time that the wait has taken so far,
 * within these bounds. The next read thus returns several jobs together, and at first the number of reads grows only with the
 * logarithm of the time.
 */
const GATHER_SHARE = 0.25
const MIN_GATHER_MS = 200
/** Replaces MIN_GATHER_MS while jobs are still being created. */
const MIN_CREATING_GATHER_MS = 500
const MAX_GATHER_MS = 2_000
/**
 * The client pauses this long after a response that came too early and without finished jobs. The pause grows with each such
 * response, up to MAX_PAUSE_MS.
 */
const FIRST_PAUSE_MS = 500
const MAX_PAUSE_MS = 10_000
const GROWTH = 1.5

const JOB_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

export interface LongPollParts {
  readonly route: JobsRoute
  readonly call: CallOptions
  readonly budget: ReadBudget
  readonly clock: Clock
  readonly logger: Logger
  /**
   * With `all`, the caller needs all jobs together, so as few reads as possible are made. With `any`, the caller needs each job
   * soon after it has finished.
   */
  readonly waitFor: 'all' | 'any'
  readonly leftS: () => number
}

/**
 * Yields each job when it has finished. Returns false if the server does not have the route. The remaining jobs are then still
 * in `open`.
 */
export async function* longPollEach(
  open: OpenJobs,
  signal: AbortSignal,
  parts: LongPollParts,
): AsyncGenerator<Outcome, boolean, undefined> {
  const { route, call, budget, clock, logger, waitFor, leftS } = parts
  const outage = new Outage(clock, logger)
  const startedMs = clock.steadyMs()
  /**
   * If there are several jobs, the first read does not wait, so that an unknown ID is reported before the other jobs have
   * finished.
   */
  let isFirst = true
  let early = 0
  while (await open.some(signal)) {
    if (route.isMissing) return false
    const ids = open.first(MAX_JOBS)
    const malformed = ids.filter((id) => !JOB_ID.test(id))
    for (const jobId of malformed) if (open.delete(jobId)) yield { jobId, job: null }
    if (malformed.length > 0) continue
    await budget.turn(signal)
    const othersMayEnd = waitFor === 'any' && (open.size > ids.length || !open.isComplete)
    const longestS = isFirst && ids.length > 1 ? 0 : othersMayEnd ? MAX_PARTIAL_WAIT_S : MAX_WAIT_S
    const waitS = Math.max(0, Math.min(longestS, leftS()))
    const askedMs = clock.steadyMs()
    let answer: JobsAnswer | null
    try {
      answer = await route.read(ids, { waitS, waitFor }, { ...call, signal })
    } catch (error) {
      signal.throwIfAborted()
      if (!isTemporary(error)) throw error
      await pause(outage.failed(error), clock, signal)
      continue
    }
    if (answer === null) return false
    isFirst = false
    outage.over()
    const tookMs = clock.steadyMs() - askedMs
    const ended = outcomesOf(ids, answer)
    for (const outcome of ended) if (open.delete(outcome.jobId)) yield outcome
    if (ended.length > 0) early = 0
    // The next read contains the other jobs first. If results did not fit into this response, their jobs stay in front.
    if (othersMayEnd && answer.more.length === 0) open.moveToEnd(ids)
    const isEarly = answer.retryAfterS !== undefined || (ended.length === 0 && tookMs < answer.waitS * 500)
    if (isEarly) {
      const growingMs = Math.min(FIRST_PAUSE_MS * GROWTH ** early, MAX_PAUSE_MS)
      early += 1
      await pause(Math.max((answer.retryAfterS ?? 0) * 1000, growingMs), clock, signal)
    } else if (
      waitFor === 'any' &&
      ended.length > 0 &&
      ended.length < ids.length &&
      answer.more.length === 0
    ) {
      const gatherMs = (clock.steadyMs() - startedMs) * GATHER_SHARE
      const leastMs = open.isComplete ? MIN_GATHER_MS : MIN_CREATING_GATHER_MS
      await pause(Math.min(Math.max(gatherMs, leastMs), MAX_GATHER_MS), clock, signal)
    }
  }
  return true
}

/** Returns the finished and the missing jobs. The server returns IDs in lower case, even if the caller's IDs are not. */
function outcomesOf(ids: readonly string[], { jobs, not_found: missing }: JobsAnswer): Outcome[] {
  const ended = new Map<string, Outcome['job']>(missing.map((id) => [id.toLowerCase(), null]))
  for (const job of jobs) {
    if (job.status === 'completed' || job.status === 'failed') ended.set(job.job_id, job)
  }
  return ids.flatMap((jobId) => {
    const job = ended.get(jobId.toLowerCase())
    return job === undefined ? [] : [{ jobId, job }]
  })
}
