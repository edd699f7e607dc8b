/** Looks for the answer that was kept for an identical job, also while the database comes and goes. */
import type { Clock } from '../clock.ts'
import type { StopSignal } from '../job/stop.ts'
import { type Store, StoreUnavailable } from '../store/store.ts'
import { pause } from '../upstreams/pause.ts'

/** Beyond that the model is asked: the answer costs once more, where the job would cost its caller's patience. */
const WITHIN_MS = 10_000
const PAUSE_MS = 250

type Recalling = Pick<Store, 'findResponse'>

/** Null where none is kept, where it could not be found out, and where the run was stopped meanwhile. */
export function lookUpResponse(
  store: Recalling,
  fingerprint: string,
  clock: Clock,
  signal: StopSignal,
): Promise<string | null> {
  return store
    .findResponse(fingerprint, clock.nowMs())
    .catch((error) => recallAgain(store, fingerprint, clock, signal, error))
}

async function recallAgain(
  store: Recalling,
  fingerprint: string,
  clock: Clock,
  signal: StopSignal,
  firstError: unknown,
): Promise<string | null> {
  const untilMs = clock.steadyMs() + WITHIN_MS
  for (let error = firstError; ; ) {
    if (!(error instanceof StoreUnavailable)) throw error
    if (clock.steadyMs() >= untilMs || !(await pause(clock, PAUSE_MS, signal))) return null
    try {
      return await store.findResponse(fingerprint, clock.nowMs())
    } catch (failure) {
      error = failure
    }
  }
}
