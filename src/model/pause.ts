/** Waiting on the injected clock, which a signal ends at once. */
import type { Clock } from '../clock.ts'

/** True after `ms`; false as soon as the signal aborts. */
export function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<boolean> {
  if (signal.aborted) return Promise.resolve(false)
  return new Promise((resolve) => {
    const onAbort = () => {
      cancel()
      resolve(false)
    }
    const cancel = clock.after(ms, () => {
      signal.removeEventListener('abort', onAbort)
      resolve(true)
    })
    signal.addEventListener('abort', onAbort, { once: true })
  })
}
