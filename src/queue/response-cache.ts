/**
 * The response cache: the answer of a completed job answers identical jobs without a call. Jobs are identical if they are of
 * one account and have the same model, response_format, options and messages (`jobFingerprint`). An answer is cached from its
 * settlement on, for the `message_cache_ttl` of its job, which is 0 if the job does not use the cache; failures are never
 * cached. `cache.enabled` turns it off.
 *
 * The store looks a job up when it accepts it; a job that was queued is looked up again when its execution starts.
 */
import type { Clock } from '../clock.ts'
import { jobFingerprint } from '../job/fingerprint.ts'
import type { Job, Outcome } from '../job/job.ts'
import type { StopSignal } from '../job/stop.ts'
import { type Store, StoreUnavailable } from '../store/store.ts'
import { pause } from '../upstreams/pause.ts'
import { type EarlierRuns, NO_RUNS } from './earlier-runs.ts'
import { type ExecutionResult, withoutCall } from './execution-result.ts'

/** After this time, the model is called: one more call costs less than a waiting caller. */
const MAX_RETRY_MS = 10_000
const RETRY_MS = 250

/**
 * A job with more characters than this waits for a separate turn of the event loop, because hashing and sending a megabyte takes a
 * few milliseconds.
 */
const LARGE_JOB = 64 * 1024

export function isLarge({ messagesJson, responseFormatJson }: Job): boolean {
  return messagesJson.length + responseFormatJson.length > LARGE_JOB
}

/** The key of the job's cached response; null if the job does not use the cache. */
export type CacheKeyOf = (job: Job) => string | null

export interface CacheOptions {
  /** `cache.enabled` */
  readonly enabled: boolean
  /** Whether the simulator answers. Its answers are cached apart: a model that is configured later does not return them. */
  readonly simulated: boolean
}

export function cacheKeys({ enabled, simulated }: CacheOptions): CacheKeyOf {
  if (!enabled) return () => null
  return simulated ? (job) => jobFingerprint({ ...job, model: `simulated ${job.model}` }) : jobFingerprint
}

/**
 * The cached response of an identical job. Returns a promise only if the store does not know at once that there is none. Null
 * if there is none, if the database did not respond in time, or if the signal stopped the job meanwhile.
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

/** The result of a job that is completed from a cached response. */
export function fromCache(contentJson: string, earlier: EarlierRuns): ExecutionResult {
  const result = withoutCall({ status: 'completed', contentJson }, earlier)
  return { ...result, usage: { ...result.usage, cache_hit: true } }
}

/** The result of a job that a cached response completed when it was accepted. @param contentJson null if nobody waits for it */
export function cachedResult(contentJson: string | null, { reserved }: Job): ExecutionResult {
  return fromCache(contentJson ?? 'null', reserved === undefined ? NO_RUNS : { ...NO_RUNS, cost: 0 })
}

/** The cache entry of a job's outcome; null for none. */
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
