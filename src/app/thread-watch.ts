/** Notices a request thread whose event loop hangs: it has stopped reporting. */
import type { Clock } from '../clock.ts'
import { LoopWatch, REPORT_EVERY_MS } from './loop-watch.ts'

export interface ThreadWatchOptions {
  /** Shared memory: how often each thread has reported. */
  readonly reports: readonly Int32Array<SharedArrayBuffer>[]
  readonly hangMs: number
  readonly clock: Pick<Clock, 'steadyMs' | 'after'>
  /** Called once, and the watch ends. */
  readonly onHang: (error: Error) => void
}

/** Returns what ends the watch. */
export function watchThreads({ reports, hangMs, clock, onHang }: ThreadWatchOptions): () => void {
  const watched = reports.map((counter) => ({ counter, watch: new LoopWatch(hangMs, clock.steadyMs()) }))
  const look = () => {
    const hanging = watched.findIndex(({ counter, watch }) =>
      watch.hangs(Atomics.load(counter, 0), clock.steadyMs()),
    )
    if (hanging < 0) cancel = clock.after(REPORT_EVERY_MS, look)
    else
      onHang(
        new Error(`request thread ${hanging} has not reported for ${hangMs / 1000} s (jobs.hang_seconds)`),
      )
  }
  let cancel = clock.after(REPORT_EVERY_MS, look)
  return () => cancel()
}
