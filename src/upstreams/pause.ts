/** A delay on the injected clock that a signal can end early. */
import type { Clock } from '../clock.ts'
import type { StopSignal } from '../job/stop.ts'

/** True after `ms`; false as soon as the signal stops it. */
export function pause(clock: Clock, ms: number, signal: StopSignal): Promise<boolean> {
  if (signal.reason !== null) return Promise.resolve(false)
  return new Promise((resolve) => {
    const listener = {
      onStop: () => {
        cancel()
        resolve(false)
      },
    }
    const cancel = clock.after(ms, () => {
      signal.unlisten(listener)
      resolve(true)
    })
    signal.listen(listener)
  })
}
