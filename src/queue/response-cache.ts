/**
 * Answers identical jobs with the cached response of a completed job, without a call. Jobs are identical if they have the same
 * account, model, response_format, options and messages (`jobFingerprint`).
 *
 * When a job is settled, its answer is cached for the job's `message_cache_ttl`; 0 means that the job neither uses nor fills
 * the cache. Failures and answers that were cut off at a length limit are not cached. The setting `cache.enabled` turns the
 * cache off. The store looks for a cached response when it accepts a job. For a queued job, the node looks again when the
 * execution starts.
 */
import type { Clock } from '../clock.ts'
import { jobFingerprint } from '../job/fingerprint.ts'
import type { Job, Outcome } from '../job/job.ts'
import { pause, type StopSignal } from '../job/stop.ts'
import { type Store, StoreUnavailable } from '../store/store.ts'
import { type EarlierRuns, type ExecutionResult, NO_RUNS, withoutCall } from './execution-result.ts'

/** After retrying for this time, the node calls the model, because an additional call costs less than a caller that waits. */
const MAX_RETRY_MS = 10_000
const RETRY_MS = 250

/**
 * Hashing and sending a megabyte takes a few milliseconds. So each job with more characters than this gets its own turn of the
 * event loop.
 */
const LARGE_JOB = 64 * 1024

export function isLarge({ messagesJson, responseFormatJson }: Job): boolean {
  return messagesJson.length + responseFormatJson.length > LARGE_JOB
}

/** Returns null if the job does not use the cache. */
export type CacheKeyOf = (job: Job) => string | null

export interface CacheOptions {
  readonly enabled: boolean
  /** Answers of the simulator have their own keys, so that they never answer jobs for a real model server. */
  readonly simulated: boolean
}

export function cacheKeys({ enabled, simulated }: CacheOptions): CacheKeyOf {
  if (!enabled) return () => null
  return simulated ? (job) => jobFingerprint({ ...job, model: `simulated ${job.model}` }) : jobFingerprint
}

/**
 * Finds the cached response of an identical job. Returns null at once if the store knows without a query that there is none.
 * The promise resolves to null if there is none, if the database did not respond in time, or if the signal stopped the job.
 */
export function lookUpResponse(
  store: Pick<Store, 'findResponse'>,
  fingerprint: string,
  clock: Clock,
  signal: StopSignal,
): Promise<string | null> | null {
  const found = store.findResponse(fingerprint, clock.nowMs())
  if (found === null) return null
  return found.catch((error) => retryLookUp(store, fingerprint, clock, signal, error))
}

export function fromCache(contentJson: string, earlier: EarlierRuns): ExecutionResult {
  const result = withoutCall({ status: 'completed', contentJson }, earlier)
  return { ...result, usage: { ...result.usage, cache_hit: true } }
}

/**
 * Returns the result of a job that a cached response completed when the job was accepted.
 * @param contentJson null if no caller waits for the job
 */
export function cachedResult(contentJson: string | null, { reserved }: Job): ExecutionResult {
  return fromCache(contentJson ?? 'null', reserved === undefined ? NO_RUNS : { ...NO_RUNS, cost: 0 })
}

/** Returns what to cache; null if the job has no answer or does not use the cache. */
export function cacheEntry(
  outcome: Outcome,
  fingerprint: string | null,
  { cacheTtlMs }: Job,
  nowMs: number,
): ExecutionResult['cache'] {
  if (fingerprint === null || outcome.status !== 'completed') return null
  return { fingerprint, untilMs: nowMs + cacheTtlMs }
}

async function retryLookUp(
  store: Pick<Store, 'findResponse'>,
  fingerprint: string,
  clock: Clock,
  signal: StopSignal,
  firstError: unknown,
): Promise<string | null> {
  const untilMs = clock.steadyMs() + MAX_RETRY_MS
  for (let error = firstError; ; ) {
    if (!(error instanceof StoreUnavailable)) throw error
    if (clock.steadyMs() >= untilMs || !(await pause(clock, RETRY_MS, signal))) return null
    try {
      return await store.findResponse(fingerprint, clock.nowMs())
    } catch (failure) {
      error = failure
    }
  }
}

/**
 * Spreads CPU-heavy work over turns of the event loop: each caller gets its own turn, in order. In between, the event loop
 * handles network events.
 */
export class Turns {
  #last: Promise<void> = Promise.resolve()

  next(): Promise<void> {
    this.#last = this.#last.then(
      () =>
        new Promise((resolve) => {
          setImmediate(resolve)
        }),
    )
    return this.#last
  }
}
