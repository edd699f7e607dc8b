/** Deletes expired data in small steps, with pauses for other work. */
import type { Clock } from '../clock.ts'
import { PollingLoop } from '../polling-loop.ts'
import type { Store } from '../store/store.ts'

const STEP_PAUSE_MS = 20
const IDLE_PAUSE_MS = 10_000

export interface RetentionOptions {
  readonly store: Pick<Store, 'expire'>
  readonly clock: Clock
  readonly retentionMs: number
  readonly onError: (error: unknown) => void
}

export function retentionLoop({ store, clock, retentionMs, onError }: RetentionOptions): PollingLoop {
  let hasMore = false
  return new PollingLoop({
    clock,
    pauseMs: () => (hasMore ? STEP_PAUSE_MS : IDLE_PAUSE_MS),
    task: async () => {
      hasMore = false
      hasMore = await store.expire({ nowMs: clock.nowMs(), retentionMs })
    },
    onError,
  })
}
