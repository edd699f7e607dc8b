/** Looks up the cached response of an identical job, also while the database comes and goes. */
import type { Clock } from '../clock.ts'
import type { StopSignal } from '../job/stop.ts'
import { type Store, StoreUnavailable } from '../store/store.ts'
import { pause } from '../upstreams/pause.ts'

/** After that the model is asked: one more call costs less than a caller who waits. */
const MAX_RETRY_MS = 10_000
const RETRY_MS = 250

/** Null when there is none, when the database did not answer in time, and when the signal stopped the job meanwhile. */
export function lookUpResponse(
  store: Pick<Store, 'findResponse'>,
  fingerprint: string,
  clock: Clock,
  signal: StopSignal,
): Promise<string | null> {
  return store
    .findResponse(fingerprint, clock.nowMs())
    .catch((error) => retryLookUp(store, fingerprint, clock, signal, error))
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
